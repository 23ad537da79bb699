# SPDX-License-Identifier: Apache-2.0
# yaml-cpp parses what this folder alone reads.
target_link_libraries(stepcast_document PRIVATE yaml-cpp)
