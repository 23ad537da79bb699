# SPDX-License-Identifier: Apache-2.0
# The factors of the collective model, compiled in.
include(EmbedFiles)
embed_files(stepcast_topology correction_files ${PROJECT_SOURCE_DIR}/topology/collective_corrections.csv)
