// SPDX-License-Identifier: Apache-2.0
#include "report/text/account.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "report/format.h"

namespace stepcast {

namespace {

Tone tone_of(Spend s) {
  if (is_compute(s)) return Tone::good;
  return is_exposed(s) ? Tone::warn : Tone::bad;
}

std::optional<Time> saved_by(const Result& result, Spend s) {
  for (const WhatIf& w : result.what_if)
    if (w.spend == s) return w.saved;
  return std::nullopt;
}

// Adds up those of `small`; one alone keeps its name.
void append_group(std::vector<AccountLine>& lines, std::vector<AccountLine> small,
                  std::string title, Tone tone) {
  if (small.size() == 1) lines.push_back(std::move(small.front()));
  if (small.size() < 2) return;
  AccountLine group{std::move(title), Time{}, std::nullopt, tone};
  for (const AccountLine& l : small) group.time += l.time;
  lines.push_back(std::move(group));
}

}  // namespace

std::vector<AccountLine> account_lines(const Result& result, uint32_t role) {
  const SpendTable& table = result.account.by_role[role];
  Time whole{};
  for (const Time t : table) whole += t;
  std::vector<AccountLine> compute, small_compute, lost, small_lost;
  for (int i = 0; i < kSpends; ++i) {
    const auto spend = static_cast<Spend>(i);
    const Time t = table[static_cast<size_t>(i)];
    AccountLine line{std::string(title_of(spend)), t, saved_by(result, spend), tone_of(spend)};
    const double weight =
        std::max(share_of(t, whole), share_of(line.saved.value_or(Time{}), whole));
    if (t.count() == 0 && weight < 0.0005) continue;
    if (is_compute(spend)) {
      (weight < 0.01 ? small_compute : compute).push_back(std::move(line));
    } else {
      (weight < 0.0005 ? small_lost : lost).push_back(std::move(line));
    }
  }
  const auto longer = [](const AccountLine& a, const AccountLine& b) { return a.time > b.time; };
  std::stable_sort(compute.begin(), compute.end(), longer);
  std::stable_sort(lost.begin(), lost.end(), longer);
  append_group(compute, std::move(small_compute), "other compute", Tone::good);
  append_group(lost, std::move(small_lost), "other waiting", Tone::bad);
  compute.insert(compute.end(), std::make_move_iterator(lost.begin()),
                 std::make_move_iterator(lost.end()));
  return compute;
}

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

double share_of(Time part, Time whole) {
  if (whole.count() == 0) return 0;
  return static_cast<double>(part.count()) / static_cast<double>(whole.count());
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
