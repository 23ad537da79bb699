// SPDX-License-Identifier: Apache-2.0
#include "model/graph_builder.h"

namespace stepcast {

WorkId GraphBuilder::work(const Work& w) {
  const auto [it, fresh] = works_.try_emplace(w, static_cast<WorkId>(graph_.works.size()));
  if (fresh) graph_.works.push_back(w);
  return it->second;
}

LabelId GraphBuilder::label(const std::string& text) {
  const auto [it, fresh] = labels_.try_emplace(text, static_cast<LabelId>(graph_.labels.size()));
  if (fresh) graph_.labels.push_back(text);
  return it->second;
}

}  // namespace stepcast
