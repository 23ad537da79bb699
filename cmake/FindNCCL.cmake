# SPDX-License-Identifier: Apache-2.0
# NCCL::NCCL, from where NCCL_HOME or NCCL_ROOT points, CUDA's own folders (run find_package(CUDAToolkit)
# before) or the system's.  NCCL_VERSION is that of the header.  A header without its library, or the
# other way round, is not found.
set(hints ${NCCL_ROOT} ${NCCL_HOME} $ENV{NCCL_ROOT} $ENV{NCCL_HOME})
find_path(NCCL_INCLUDE_DIR nccl.h
  HINTS ${hints} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
find_library(NCCL_LIBRARY nccl
  HINTS ${hints} ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)

set(NCCL_VERSION "")
if(NCCL_INCLUDE_DIR AND EXISTS ${NCCL_INCLUDE_DIR}/nccl.h)
  file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h lines REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) +[0-9]+")
  foreach(part IN ITEMS MAJOR MINOR PATCH)
    string(REGEX MATCH "NCCL_${part} +([0-9]+)" found "${lines}")
    list(APPEND parts ${CMAKE_MATCH_1})
  endforeach()
  list(JOIN parts . NCCL_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR VERSION_VAR NCCL_VERSION)

if(NCCL_FOUND AND NOT TARGET NCCL::NCCL)
  add_library(NCCL::NCCL UNKNOWN IMPORTED)
  set_target_properties(NCCL::NCCL PROPERTIES
    IMPORTED_LOCATION ${NCCL_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
endif()
