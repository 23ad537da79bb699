# SPDX-License-Identifier: Apache-2.0
# NCCL and MPI for stepcast-measure; it is built without either.
#   NCCL_FOUND  target NCCL::NCCL: collectives are measured (FindNCCL.cmake); 2.18 is the first with ncclCommSplit
#   MPI_C_FOUND  target MPI::MPI_C: processes that mpirun started meet without a shared file
set(STEPCAST_MPI AUTO CACHE STRING "Build stepcast-measure with MPI: AUTO (where it is found), ON or OFF")
set_property(CACHE STEPCAST_MPI PROPERTY STRINGS AUTO ON OFF)

find_package(NCCL 2.18 QUIET)
if(STEPCAST_MPI STREQUAL "AUTO")
  find_package(MPI QUIET COMPONENTS C)
elseif(STEPCAST_MPI)
  find_package(MPI REQUIRED COMPONENTS C)
endif()
if(NCCL_FOUND)
  set(found "NCCL ${NCCL_VERSION}")
else()
  set(found "no NCCL of 2.18 or later, so no collectives")
endif()
if(MPI_C_FOUND)
  message(STATUS "stepcast-measure: ${found}; MPI ${MPI_C_VERSION}")
else()
  message(STATUS "stepcast-measure: ${found}; no MPI")
endif()
