# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts down: the command, a static library and the headers of each module,
# and the package files behind find_package(Stepcast).
#
# Headers go below include/stepcast, so that "sim/units.h" means there what it means here.
include(CMakePackageConfigHelpers)

# Stepcast::stepcast, the sum of all modules.
add_library(stepcast_all INTERFACE)
add_library(Stepcast::stepcast ALIAS stepcast_all)
set_target_properties(stepcast_all PROPERTIES EXPORT_NAME stepcast)

foreach(folder IN LISTS STEPCAST_MODULES)
  get_filename_component(module ${folder} NAME)
  target_link_libraries(stepcast_all INTERFACE stepcast_${module})
  install(TARGETS stepcast_${module} EXPORT StepcastTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  get_filename_component(outer ${folder} DIRECTORY)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/stepcast/${outer}
    FILES_MATCHING PATTERN "*.h"
    PATTERN presets EXCLUDE PATTERN examples EXCLUDE PATTERN tables EXCLUDE PATTERN measure EXCLUDE)
endforeach()
install(TARGETS stepcast_all EXPORT StepcastTargets)

if(TARGET stepcast)
  install(TARGETS stepcast RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/scenarios/examples
  DESTINATION ${CMAKE_INSTALL_DATADIR}/stepcast)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Stepcast)
install(EXPORT StepcastTargets NAMESPACE Stepcast:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/StepcastConfig.cmake.in
  ${PROJECT_BINARY_DIR}/StepcastConfig.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0 every minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/StepcastConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/StepcastConfig.cmake
  ${PROJECT_BINARY_DIR}/StepcastConfigVersion.cmake DESTINATION ${package_dir})
