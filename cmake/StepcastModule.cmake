# SPDX-License-Identifier: Apache-2.0
# stepcast_module(FOLDER DEPENDS modules...): one static library for a folder, from all the .cc files in
# it and below it, called after its last name.  A folder below it that is a module of its own is left out.

# Options of every target of the project.
add_library(stepcast_options INTERFACE)
target_compile_features(stepcast_options INTERFACE cxx_std_20)
target_compile_options(stepcast_options INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wold-style-cast
  # Bit-identical results on every machine: no contraction of a*b+c that one compiler does and another does not.
  -ffp-contract=off
  # Messages of failed checks name files from the project's root, whatever machine built them.
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
  # g++ 12 sees overlapping copies in std::string's operator+ that are not there (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<$<BOOL:${STEPCAST_WERROR}>:-Werror>)
set_target_properties(stepcast_options PROPERTIES EXPORT_NAME options)
# stepcast_harden(TARGET): what a file from a stranger might overrun stops the program instead.  (Tests are
# built without optimisation, which FORTIFY needs.)  Only sim does without the standard library's own
# checks: it runs programs that were made and checked before, and they made its engine 12 to 40 % slower
# (bench/ engine/gpt3_merged*), all else together 4 to 8 % (file_to_result/*).
function(stepcast_harden target)
  if(CMAKE_BUILD_TYPE STREQUAL "Release" AND PROJECT_IS_TOP_LEVEL)
    target_compile_options(${target} PRIVATE -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
    if(NOT target STREQUAL "stepcast_sim")
      target_compile_definitions(${target} PRIVATE _GLIBCXX_ASSERTIONS)
    endif()
    target_link_options(${target} PRIVATE -Wl,-z,relro,-z,now)
  endif()
endfunction()
# Test programs are many and link everything: mold does it in a fraction of a second where it is installed.
find_program(STEPCAST_MOLD mold)
mark_as_advanced(STEPCAST_MOLD)
if(STEPCAST_MOLD AND PROJECT_IS_TOP_LEVEL)
  target_link_options(stepcast_options INTERFACE -fuse-ld=mold)
endif()

set(STEPCAST_MODULES "" CACHE INTERNAL "")
# Folders inside a module's folder that are libraries or programs of their own.
set(STEPCAST_INNER_MODULES scenarios/document scenarios/forecast scenarios/frameworks scenarios/search calibrate/runs calibrate/measure)

# What reads a file or writes an answer, once: less optimisation compiles it a third faster.
set(STEPCAST_ONCE_A_FILE scenarios/document scenarios scenarios/frameworks calibrate/runs report)

# stepcast_unity(TARGET sources...): with STEPCAST_UNITY the sources of one folder are compiled as one,
# which parses their headers once: a full build takes a third of the time.  So names in anonymous
# namespaces are unique within a folder.
function(stepcast_unity target)
  if(NOT STEPCAST_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(source IN LISTS ARGN)
    get_filename_component(folder ${source} DIRECTORY)
    file(RELATIVE_PATH group ${PROJECT_SOURCE_DIR} ${folder})
    string(REPLACE "/" "_" group "${group}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()

function(stepcast_module folder)
  get_filename_component(name ${folder} NAME)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cc)
  foreach(inner IN LISTS STEPCAST_INNER_MODULES)
    if(NOT folder STREQUAL inner)
      list(FILTER sources EXCLUDE REGEX "^${PROJECT_SOURCE_DIR}/${inner}/")
    endif()
  endforeach()
  add_library(stepcast_${name} STATIC ${sources})
  stepcast_unity(stepcast_${name} ${sources})
  stepcast_harden(stepcast_${name})
  if(folder IN_LIST STEPCAST_ONCE_A_FILE)
    target_compile_options(stepcast_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  add_library(Stepcast::${name} ALIAS stepcast_${name})
  set_target_properties(stepcast_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(stepcast_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/stepcast>)
  target_link_libraries(stepcast_${name} PRIVATE $<BUILD_INTERFACE:stepcast_options> fmt::fmt)
  target_compile_features(stepcast_${name} PUBLIC cxx_std_20)
  foreach(dep IN LISTS ARG_DEPENDS)
    target_link_libraries(stepcast_${name} PUBLIC stepcast_${dep})
  endforeach()
  if(EXISTS ${PROJECT_SOURCE_DIR}/${folder}/module.cmake)  # what only this folder needs
    include(${PROJECT_SOURCE_DIR}/${folder}/module.cmake)
  endif()
  set(STEPCAST_MODULES ${STEPCAST_MODULES} ${folder} CACHE INTERNAL "")
endfunction()
