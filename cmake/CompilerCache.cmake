# SPDX-License-Identifier: Apache-2.0
# ccache is used where it is installed; -DCMAKE_CXX_COMPILER_LAUNCHER= turns it off.
if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(STEPCAST_CCACHE ccache)
  mark_as_advanced(STEPCAST_CCACHE)
  if(STEPCAST_CCACHE)
    # Without this sloppiness ccache leaves everything alone that uses a precompiled header.
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${STEPCAST_CCACHE})
  endif()
endif()
