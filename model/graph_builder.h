// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "sim/graph/op_graph.h"

namespace stepcast {

// Interns works and labels while an OpGraph is built: equal works get equal ids.  Keeps a reference
// to the graph, and reads nothing that is in it before.
class GraphBuilder {
 public:
  explicit GraphBuilder(OpGraph& graph) : graph_(graph) {}
  WorkId work(const Work& w);
  LabelId label(const std::string& text);
  OpGraph& graph() { return graph_; }

 private:
  OpGraph& graph_;
  std::map<Work, WorkId> works_;
  std::map<std::string, LabelId> labels_;
};

}  // namespace stepcast
