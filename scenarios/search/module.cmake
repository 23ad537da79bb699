# SPDX-License-Identifier: Apache-2.0
target_link_libraries(stepcast_search PRIVATE Threads::Threads)
