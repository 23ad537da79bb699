// SPDX-License-Identifier: Apache-2.0
#include "calibrate/import/device_names.h"

#include <span>
#include <utility>

#include <embedded/device_name_files.h>

#include "sim/csv.h"

namespace stepcast {

std::string_view gpu_of_device(std::string_view device) {
  for (const std::string_view maker : {"NVIDIA ", "Tesla "})
    if (device.starts_with(maker)) device.remove_prefix(maker.size());
  while (device.ends_with(' ')) device.remove_suffix(1);
  for (const CsvRow& row : csv_rows(device_name_files()[0].second, "name,gpu")) {
    if (row.cells[0] == device) return row.cells[1];
  }
  return {};
}

}  // namespace stepcast
