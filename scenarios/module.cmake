# SPDX-License-Identifier: Apache-2.0
# The presets and the observed errors are part of the library (presets.h, observed_errors.h).
include(EmbedFiles)
file(GLOB presets CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/scenarios/presets/models/*.yaml
  ${PROJECT_SOURCE_DIR}/scenarios/presets/gpus/*.yaml
  ${PROJECT_SOURCE_DIR}/scenarios/presets/clusters/*.yaml
  ${PROJECT_SOURCE_DIR}/scenarios/presets/software/*.yaml)
embed_files(stepcast_scenarios preset_files ${presets})
embed_files(stepcast_scenarios highest_mfu_files ${PROJECT_SOURCE_DIR}/scenarios/highest_mfu.csv)
embed_files(stepcast_scenarios memory_error_files ${PROJECT_SOURCE_DIR}/scenarios/memory_errors.csv)
embed_files(stepcast_scenarios observed_error_files ${PROJECT_SOURCE_DIR}/scenarios/observed_errors.csv)
embed_files(stepcast_scenarios own_run_error_files ${PROJECT_SOURCE_DIR}/scenarios/own_run_errors.csv)
