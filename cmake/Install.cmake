# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts down: the command, a static library of each module, the public headers,
# and the package files behind find_package(Stepcast), whose Stepcast::stepcast is the folder stepcast/
# with all that it is made of.
include(CMakePackageConfigHelpers)

# The public interface: these headers and no other.  tests/install fails if one of them includes a
# header that is not here.  They go below include/stepcast, so that "stepcast/stepcast.h" means there
# what it means here.
set(STEPCAST_PUBLIC_HEADERS
  capi/stepcast_c.h
  stepcast/stepcast.h
  stepcast/errors.h
  stepcast/forecast.h
  stepcast/presets.h
  stepcast/scenario.h
  scenarios/presets.h
  sim/diagnostic.h)
foreach(header IN LISTS STEPCAST_PUBLIC_HEADERS)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${header}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/stepcast/${folder})
endforeach()

foreach(folder IN LISTS STEPCAST_MODULES)
  get_filename_component(module ${folder} NAME)
  install(TARGETS stepcast_${module} EXPORT StepcastTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endforeach()

install(TARGETS stepcast_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
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
