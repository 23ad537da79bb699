# SPDX-License-Identifier: Apache-2.0
# Comparisons run their cases on several threads.
target_link_libraries(stepcast_forecast PRIVATE Threads::Threads)
