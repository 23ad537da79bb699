# SPDX-License-Identifier: Apache-2.0
# The factors of the collective model, compiled in; pugixml for NCCL's XML.
include(EmbedFiles)
embed_files(stepcast_topology correction_files ${PROJECT_SOURCE_DIR}/topology/nccl/collective_corrections.csv)
target_link_libraries(stepcast_topology PRIVATE pugixml::pugixml)
