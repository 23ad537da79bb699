// SPDX-License-Identifier: Apache-2.0
#include "report/engine_paths.h"

#include <utility>

#include "report/format.h"

namespace stepcast {
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
  const auto add = [&](const char* name, int64_t ops, std::string why) {
    if (ops == 0) return;
    const double share = static_cast<double>(ops) / static_cast<double>(r.rank_ops);
    paths.push_back({name, ops, share, std::move(why)});
  };
  add("fast", r.rank_ops - r.event_ops, "how long each takes is known beforehand");
  if (r.disturbance) add("events", r.event_ops, why_events(*r.disturbance));
  return paths;
}

std::string engine_sentence(const Result& r) {
  std::string s = "engine: " + grouped(r.rank_ops) + " rank-ops";
  s += r.disturbance ? ", every rank a lane" : ", one rank of each stage";
  for (const EnginePath& path : engine_paths(r))
    s += "; " + percent(path.share) + (path.name == "fast" ? " on the fast path" : " by events") +
         ", since " + path.why;
  if (r.flow_events > 0) s += "; " + grouped(r.flow_events) + " starts and ends of flows";
  return s + '.';
}

void write_engine(JsonWriter& json, const Result& r) {
  const std::vector<EnginePath> paths = engine_paths(r);
  const bool fast = !paths.empty() && paths.front().name == "fast";
  json.object("engine", [&] {
    json.member("fast_path_share", paths.empty() ? 1 : fast ? paths.front().share : 0);
    json.member("rank_ops", r.rank_ops);
    json.member("flow_events", r.flow_events);
    json.objects("paths", paths, [&](const EnginePath& path) {
      json.member("path", path.name);
      json.member("rank_ops", path.rank_ops);
      json.member("share", path.share);
      json.member("why", path.why);
    });
  });
}

}  // namespace stepcast
