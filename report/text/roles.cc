// SPDX-License-Identifier: Apache-2.0
#include "report/text/roles.h"

#include <fmt/format.h>

#include <utility>

#include "report/format.h"

namespace stepcast {

uint32_t pipeline_rank(const Result& result, uint32_t role) {
  const bool known = result.graph && role < result.graph->roles.size();
  return known ? result.graph->roles[role].pipeline_rank : role;
}

std::string role_name(const Result& result, uint32_t role) {
  if (result.graph && role < result.graph->roles.size() && !result.graph->roles[role].name.empty())
    return escape_text(result.graph->roles[role].name);
  if (role < result.memory.size() && !result.memory[role].name.empty())
    return escape_text(result.memory[role].name);
  return fmt::format("stage {}", role);
}

namespace {

std::string why_events(const Disturbance& d) {
  std::string why;
  if (d.shared_links) why = "they share links with others";
  if (d.shared_links && d.interference) why += ", or ";
  if (d.interference) why += "they run beside others that slow them down";
  return why;
}

}  // namespace

std::vector<EnginePath> engine_paths(const Result& r) {
  std::vector<EnginePath> paths;
  const auto add = [&](bool by_events, int64_t ops, std::string why) {
    if (ops == 0) return;
    const double share = static_cast<double>(ops) / static_cast<double>(r.rank_ops);
    paths.push_back({by_events, ops, share, std::move(why)});
  };
  add(false, r.rank_ops - r.event_ops, "how long each takes is known beforehand");
  if (r.disturbance) add(true, r.event_ops, why_events(*r.disturbance));
  return paths;
}

std::string engine_sentence(const Result& r) {
  std::string s = "engine: " + grouped(r.rank_ops) + " rank-ops";
  s += r.disturbance ? ", every rank a lane" : ", one rank of each stage";
  for (const EnginePath& path : engine_paths(r))
    s += "; " + percent(path.share) + (path.by_events ? " by events" : " on the fast path") +
         ", since " + path.why;
  if (r.flow_events > 0) s += "; " + grouped(r.flow_events) + " starts and ends of flows";
  return s + '.';
}

void write_engine(JsonWriter& json, const Result& r) {
  const std::vector<EnginePath> paths = engine_paths(r);
  const bool fast = !paths.empty() && !paths.front().by_events;
  json.object("engine", [&] {
    json.member("fast_path_share", paths.empty() ? 1 : fast ? paths.front().share : 0);
    json.member("rank_ops", r.rank_ops);
    json.member("flow_events", r.flow_events);
    json.objects("paths", paths, [&](const EnginePath& path) {
      json.member("path", path.by_events ? "events" : "fast");
      json.member("rank_ops", path.rank_ops);
      json.member("share", path.share);
      json.member("why", path.why);
    });
  });
}

}  // namespace stepcast
