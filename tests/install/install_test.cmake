# SPDX-License-Identifier: Apache-2.0
# Installs a build tree into an empty prefix, builds a program against what lies there, and runs it
# and the installed command.  Arguments: BUILD_DIR, SOURCE_DIR (this folder), SCENARIO, WORK_DIR,
# COMPILER, FLAGS, BUILD_TYPE.
cmake_minimum_required(VERSION 3.25)

function(must_run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "failed (${status}): ${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

set(prefix "${WORK_DIR}/prefix")
file(REMOVE_RECURSE "${WORK_DIR}")
must_run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix})

# Nothing that is installed may point back into the source or build tree.
file(GLOB_RECURSE package_files "${prefix}/*.cmake")
if(NOT package_files)
  message(FATAL_ERROR "no package files were installed")
endif()
cmake_path(GET BUILD_DIR PARENT_PATH build_parent)
foreach(file IN LISTS package_files)
  file(READ ${file} text)
  string(FIND "${text}" "${build_parent}" where)
  if(NOT where EQUAL -1)
    message(FATAL_ERROR "${file} names the build tree ${build_parent}")
  endif()
endforeach()

# The public headers are few, and include each other and the standard library only.
set(include_dir "${prefix}/include/stepcast")
file(GLOB_RECURSE headers RELATIVE "${include_dir}" "${include_dir}/*.h")
list(LENGTH headers count)
if(count EQUAL 0 OR count GREATER 25)
  message(FATAL_ERROR "${count} headers are installed, where 25 are the most")
endif()
set(everything "")
foreach(header IN LISTS headers)
  file(STRINGS "${include_dir}/${header}" includes REGEX "^ *#include \"")
  foreach(line IN LISTS includes)
    string(REGEX REPLACE ".*\"(.*)\".*" "\\1" included "${line}")
    if(NOT EXISTS "${include_dir}/${included}")
      message(FATAL_ERROR "${header} is installed and includes ${included}, which is not: "
        "STEPCAST_PUBLIC_HEADERS in cmake/Install.cmake")
    endif()
  endforeach()
  string(APPEND everything "#include \"${header}\"\n")
endforeach()
# All of them compile.
file(WRITE "${WORK_DIR}/all_headers.cc" "${everything}int main() {}\n")
must_run(${COMPILER} -std=c++20 -fsyntax-only -I${include_dir} ${WORK_DIR}/all_headers.cc)

must_run(${CMAKE_COMMAND} -G Ninja -S ${SOURCE_DIR}/consumer -B ${WORK_DIR}/consumer
  -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_FLAGS=${FLAGS}
  -DCMAKE_BUILD_TYPE=${BUILD_TYPE})
must_run(${CMAKE_COMMAND} --build ${WORK_DIR}/consumer)
must_run(${WORK_DIR}/consumer/consumer ${SCENARIO})
if(NOT output MATCHES "one step takes [0-9]+\\.[0-9]+ s")
  message(FATAL_ERROR "the consumer printed:\n${output}")
endif()
message(STATUS "${output}")
must_run(${prefix}/bin/stepcast run ${SCENARIO})
file(REMOVE_RECURSE "${WORK_DIR}")
