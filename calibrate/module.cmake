# SPDX-License-Identifier: Apache-2.0
# The shipped cost tables and the roofline's efficiencies, compiled in; Eigen for the fits, JSON of other tools, fmt for messages.
include(EmbedFiles)
file(GLOB stepcast_table_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/calibrate/data/tables/*.csv)
embed_files(stepcast_calibrate shipped_table_files ${stepcast_table_files})
file(GLOB stepcast_attention_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/calibrate/data/attention/*.csv)
embed_files(stepcast_calibrate attention_files ${stepcast_attention_files})
embed_files(stepcast_calibrate alignment_files ${PROJECT_SOURCE_DIR}/calibrate/data/alignment.csv)
embed_files(stepcast_calibrate roofline_files ${PROJECT_SOURCE_DIR}/calibrate/data/roofline.csv)
embed_files(stepcast_calibrate power_limit_files ${PROJECT_SOURCE_DIR}/calibrate/data/power_limit.csv)
embed_files(stepcast_calibrate cost_error_files ${PROJECT_SOURCE_DIR}/calibrate/data/cost_errors.csv)
embed_files(stepcast_calibrate in_situ_files ${PROJECT_SOURCE_DIR}/calibrate/in_situ.csv)
embed_files(stepcast_calibrate host_cost_files ${PROJECT_SOURCE_DIR}/calibrate/data/host_costs.csv)
embed_files(stepcast_calibrate device_name_files ${PROJECT_SOURCE_DIR}/calibrate/data/device_names.csv)
target_link_libraries(stepcast_calibrate PRIVATE fmt::fmt $<BUILD_INTERFACE:Eigen3::Eigen>
  $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
