# SPDX-License-Identifier: Apache-2.0
# The table of GPU architectures and the factors of the collective model, compiled in; pugixml for NCCL's XML.
include(EmbedFiles)
embed_files(stepcast_topology gpu_architecture_files ${PROJECT_SOURCE_DIR}/topology/cluster/gpu_architectures.csv)
embed_files(stepcast_topology correction_files ${PROJECT_SOURCE_DIR}/topology/nccl/collective_corrections.csv)
target_link_libraries(stepcast_topology PRIVATE pugixml::pugixml)
