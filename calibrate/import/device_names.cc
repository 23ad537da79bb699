// SPDX-License-Identifier: Apache-2.0
#include "calibrate/import/device_names.h"

#include <algorithm>
#include <span>
#include <utility>

namespace stepcast {

std::span<const std::pair<std::string_view, std::string_view>> device_name_files();

std::string_view gpu_of_device(std::string_view device) {
  for (const std::string_view maker : {"NVIDIA ", "Tesla "})
    if (device.starts_with(maker)) device.remove_prefix(maker.size());
  while (device.ends_with(' ')) device.remove_suffix(1);
  std::string_view rest = device_name_files()[0].second;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const size_t comma = line.find(',');
    if (line.starts_with('#') || comma == std::string_view::npos) continue;
    if (line.substr(0, comma) == device) return line.substr(comma + 1);
  }
  return {};
}

}  // namespace stepcast
