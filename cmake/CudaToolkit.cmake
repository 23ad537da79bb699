# SPDX-License-Identifier: Apache-2.0
# STEPCAST_CUDA: whether the measuring program is built.  AUTO: where nvcc is, and the host compiler is
# the one that nvcc is used with here (g++, without sanitizers, which do not know device memory).
set(STEPCAST_CUDA AUTO CACHE STRING "Build stepcast-measure: AUTO, ON or OFF")
set_property(CACHE STEPCAST_CUDA PROPERTY STRINGS AUTO ON OFF)
# Ampere, Hopper, Blackwell, and PTX for what comes after them.
set(STEPCAST_CUDA_ARCHITECTURES "80-real;90-real;100" CACHE STRING "GPU architectures of stepcast-measure")

set(STEPCAST_CUDA_FOUND OFF)
find_program(STEPCAST_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
set(wanted ${STEPCAST_CUDA})
if(STEPCAST_CUDA STREQUAL "AUTO")
  set(wanted OFF)
  if(STEPCAST_NVCC AND PROJECT_IS_TOP_LEVEL AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
     AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    set(wanted ON)
  endif()
endif()
if(wanted)
  if(NOT STEPCAST_NVCC)
    message(FATAL_ERROR "STEPCAST_CUDA is ON and there is no nvcc; put CUDA's bin folder on PATH")
  endif()
  set(CMAKE_CUDA_COMPILER ${STEPCAST_NVCC} CACHE FILEPATH "")
  set(CMAKE_CUDA_ARCHITECTURES ${STEPCAST_CUDA_ARCHITECTURES} CACHE STRING "")
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER} CACHE FILEPATH "")
  if(CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
  enable_language(CUDA)
  set(STEPCAST_CUDA_FOUND ON)
endif()
message(STATUS "stepcast-measure (STEPCAST_CUDA ${STEPCAST_CUDA}): ${STEPCAST_CUDA_FOUND}")
