# SPDX-License-Identifier: Apache-2.0
# Published failure rates and what nodes draw, compiled in; fmt for messages.
include(EmbedFiles)
embed_files(stepcast_job fleet_files ${PROJECT_SOURCE_DIR}/job/fleets.csv)
embed_files(stepcast_job power_files ${PROJECT_SOURCE_DIR}/job/power.csv)
target_link_libraries(stepcast_job PRIVATE fmt::fmt)
