# SPDX-License-Identifier: Apache-2.0
# Stores of rows are SQLite's files.
target_link_libraries(stepcast_search PRIVATE Threads::Threads SQLite::SQLite3)
