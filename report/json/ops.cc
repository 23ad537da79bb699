// SPDX-License-Identifier: Apache-2.0
#include "report/json/ops.h"

#include <functional>

#include "report/json/writer.h"
#include "sim/check.h"

namespace stepcast {
namespace {

struct OpRow {
  uint32_t rank = 0;
  const Item& item;
  const Pass& pass;
  const Op& op;
  Time begin{}, end{};
};

void for_each_op(const Result& result, const std::function<void(const OpRow&)>& visit) {
  const OpGraph& graph = *result.graph;
  for (size_t role = 0; role < graph.roles.size(); ++role) {
    const RoleTimeline& times = result.timeline.roles[role];
    size_t at = 0;
    for (const Item& item : graph.roles[role].items) {
      if (item.kind != ItemKind::pass) continue;
      const Pass& pass = graph.passes[static_cast<size_t>(item.pass)];
      for (const Op& op : pass.ops) {
        STEPCAST_CHECK(at < times.op_start.size(), "as many starts as ops");
        const Time begin = times.op_start[at];
        const Time end = times.op_end.empty()
                             ? begin + result.prices->by_work[static_cast<size_t>(op.work)].time
                             : times.op_end[at];
        visit({graph.roles[role].pipeline_rank, item, pass, op, begin, end});
        ++at;
      }
    }
  }
}

}  // namespace

std::string ops_json(const Result& result) {
  STEPCAST_CHECK(result.graph && result.prices, "ops are read out of graph and prices");
  STEPCAST_CHECK(result.timeline.roles.size() == result.graph->roles.size(),
                 "a timeline of this graph");
  JsonWriter json(0);
  const auto column = [&](const char* name, const auto& write) {
    json.key(name);
    json.begin_array();
    for_each_op(result, write);
    json.end_array();
  };
  json.begin_object();
  column("rank", [&](const OpRow& r) { json.value(r.rank); });
  column("action", [&](const OpRow& r) {
    json.value(r.item.has_action ? action_text(r.item) : r.pass.name);
  });
  column("stage", [&](const OpRow& r) {
    json.value(r.item.has_action ? int64_t{r.item.action.stage} : int64_t{-1});
  });
  column("microbatch", [&](const OpRow& r) {
    json.value(r.item.has_action ? int64_t{r.item.action.microbatch} : int64_t{-1});
  });
  column("layer", [&](const OpRow& r) { json.value(int64_t{r.op.layer}); });
  column("phase", [&](const OpRow& r) { json.value(name_of(r.op.phase)); });
  column("stream", [&](const OpRow& r) { json.value(name_of(r.op.stream)); });
  column("name", [&](const OpRow& r) { json.value(result.graph->text(r.op.label)); });
  column("begin_s", [&](const OpRow& r) { json.seconds(r.begin); });
  column("end_s", [&](const OpRow& r) { json.seconds(r.end); });
  column("begin_ps", [&](const OpRow& r) { json.value(int64_t{r.begin.count()}); });
  column("end_ps", [&](const OpRow& r) { json.value(int64_t{r.end.count()}); });
  json.end_object();
  return json.text() + '\n';
}

}  // namespace stepcast
