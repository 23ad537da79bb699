# SPDX-License-Identifier: Apache-2.0
# stepcast_module(FOLDER DEPENDS modules...): one static library for a folder, from all its .cc files,
# called after its last name.

# Options of every target of the project.
add_library(stepcast_options INTERFACE)
target_compile_features(stepcast_options INTERFACE cxx_std_20)
target_compile_options(stepcast_options INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wold-style-cast
  # Bit-identical results on every machine: no contraction of a*b+c that one compiler does and another does not.
  -ffp-contract=off
  # g++ 12 sees overlapping copies in std::string's operator+ that are not there (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<$<BOOL:${STEPCAST_WERROR}>:-Werror>)
set_target_properties(stepcast_options PROPERTIES EXPORT_NAME options)

set(STEPCAST_MODULES "" CACHE INTERNAL "")

function(stepcast_module folder)
  get_filename_component(name ${folder} NAME)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cc)
  if(NOT sources)
    return()
  endif()
  add_library(stepcast_${name} STATIC ${sources})
  add_library(Stepcast::${name} ALIAS stepcast_${name})
  set_target_properties(stepcast_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(stepcast_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/stepcast>)
  target_link_libraries(stepcast_${name} PRIVATE $<BUILD_INTERFACE:stepcast_options>)
  target_compile_features(stepcast_${name} PUBLIC cxx_std_20)
  foreach(dep IN LISTS ARG_DEPENDS)
    target_link_libraries(stepcast_${name} PUBLIC stepcast_${dep})
  endforeach()
  if(EXISTS ${PROJECT_SOURCE_DIR}/${folder}/module.cmake)  # what only this folder needs
    include(${PROJECT_SOURCE_DIR}/${folder}/module.cmake)
  endif()
  set(STEPCAST_MODULES ${STEPCAST_MODULES} ${folder} CACHE INTERNAL "")
endfunction()
