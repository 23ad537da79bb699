# SPDX-License-Identifier: Apache-2.0
# g++ 12 takes Boost.Graph's end-of-edges iterator, an empty optional, for an uninitialized one.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set_source_files_properties(${PROJECT_SOURCE_DIR}/topology/fabric_graph.cc PROPERTIES
    COMPILE_OPTIONS -Wno-maybe-uninitialized)
endif()
