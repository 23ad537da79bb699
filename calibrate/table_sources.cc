// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table_sources.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace stepcast {

void drop_unused_sources(TableText& t) {
  std::vector<uint16_t*> uses;
  const auto use_all = [&](auto& rows) {
    for (auto& r : rows) uses.push_back(&r.source);
  };
  use_all(t.gemms);
  use_all(t.attentions);
  use_all(t.memories);
  use_all(t.copies);
  use_all(t.collectives);
  use_all(t.fits);
  const auto use_if = [&](bool is_there, uint16_t& source) {
    source = is_there ? source : 0;
    if (is_there) uses.push_back(&source);
  };
  use_if(t.launch_us.has_value(), t.launch_source);
  use_if(t.graph_launch_us.has_value(), t.graph_launch_source);
  use_if(t.interference.has_value(), t.interference_source);
  use_if(t.ratio_nn.has_value(), t.ratio_nn_source);
  use_if(t.ratio_nt.has_value(), t.ratio_nt_source);
  use_if(t.ratio_skinny.has_value(), t.ratio_skinny_source);
  std::vector<bool> used(t.sources.size(), false);
  for (const uint16_t* u : uses) used[*u] = true;
  std::vector<TableSource> kept;
  std::vector<uint16_t> place(t.sources.size(), 0);
  for (size_t i = 0; i < used.size(); ++i) {
    place[i] = static_cast<uint16_t>(kept.size());
    if (used[i]) kept.push_back(std::move(t.sources[i]));
  }
  for (uint16_t* u : uses) *u = place[*u];
  t.sources = std::move(kept);
}

}  // namespace stepcast
