// SPDX-License-Identifier: Apache-2.0
// schedule_title: what reports call a family.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "scenarios/resolve_schedule.h"

namespace stepcast {

std::string schedule_title(const std::string& schedule_name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 18> kTitles{
      {{"gpipe", "GPipe"},
       {"interleaved-1f1b-ep-overlap", "interleaved 1F1B with EP overlap"},
       {"looped-bfs", "looped BFS"},
       {"breadth-first", "breadth-first"},
       {"group-interleaved", "group-interleaved"},
       {"zb-h1", "ZB-H1"},
       {"zb-h1-quickstart", "ZB-H1 quickstart"},
       {"zb-h2", "ZB-H2"},
       {"zb-v", "ZB-V"},
       {"zb-1p-auto", "ZB-1p auto"},
       {"zb-2p-auto", "ZB-2p auto"},
       {"zb-v-auto", "ZB-V auto"},
       {"v-half", "V-Half"},
       {"v-min", "V-Min"},
       {"1f1b-v", "1F1B-V"},
       {"dualpipe", "DualPipe"},
       {"dualpipev", "DualPipeV"},
       {"seq1f1b", "Seq1F1B"}}};
  for (const auto& [name, title] : kTitles)
    if (name == schedule_name) return std::string(title);
  if (schedule_name.find('.') != std::string::npos) return schedule_name;  // a file
  std::string title = schedule_name;
  const size_t at = title.find("1f1b");
  if (at != std::string::npos) title.replace(at, 4, "1F1B");
  std::replace(title.begin(), title.end(), '-', ' ');
  return title;
}

}  // namespace stepcast
