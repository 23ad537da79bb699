# SPDX-License-Identifier: Apache-2.0
# Arguments that are known to be without effect are part of the library (import_arguments.h).
include(EmbedFiles)
file(GLOB lists CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/scenarios/frameworks/imports/*.txt
  ${PROJECT_SOURCE_DIR}/scenarios/frameworks/imports/*.yaml)
embed_files(stepcast_frameworks import_lists ${lists})
