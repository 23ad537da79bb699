# SPDX-License-Identifier: Apache-2.0
# Every library the project uses; all are packages of Debian 12 (tools/dependencies lists their names).
find_package(Boost 1.74 REQUIRED)  # Boost.Graph, header only
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(fmt 9 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(tomlplusplus 3.3 REQUIRED)
find_package(pugixml 1.13 REQUIRED)
find_package(yaml-cpp 0.7 REQUIRED)
find_package(ZLIB 1.2 REQUIRED)
find_package(Threads REQUIRED)
find_package(SQLite3 3.40 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
if(STEPCAST_TESTS)
  find_package(GTest REQUIRED)
endif()
if(STEPCAST_BENCH)
  find_package(benchmark REQUIRED)
endif()
