// SPDX-License-Identifier: Apache-2.0
#include "schedules/families.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "sim/text.h"

namespace stepcast {
namespace {

// Lower case, and one way to separate words.
std::string normalised(std::string_view name) {
  std::string text(name);
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '_' || c == ' ') c = '-';
  }
  return text;
}

bool has_name(const ScheduleFamily& family, std::string_view normal) {
  return family.name == normal ||
         std::find(family.aliases.begin(), family.aliases.end(), normal) != family.aliases.end();
}

bool has_parameter(const ScheduleFamily& family, std::string_view key) {
  return std::any_of(family.parameters.begin(), family.parameters.end(),
                     [&](const ScheduleParameter& p) { return p.key == key; });
}

// A remark of whoever wrote the parameters down; no family reads it.
constexpr std::string_view kRemark = "note";

}  // namespace

std::span<const ScheduleFamily> schedule_families() {
  // In the order of docs/schedules.md.
  static const std::array families = {
      gpipe(),
      one_f_one_b(),
      eager_1f1b(),
      interleaved(),
      interleaved_ep_overlap(),
      interleaved_flex(),
      seq1f1b(),
      group_interleaved(),
      looped_bfs(),
      breadth_first(),
      zb_h1(),
      zb_h1_quickstart(),
      zb_h2(),
      interleaved_zero_bubble(),
      zb_1p_auto(),
      zb_2p_auto(),
      zb_v(),
      zb_v_auto(),
      v_half(),
      v_min(),
      one_f_one_b_v(),
      v_controllable(),
      dualpipe(),
      dualpipev(),
      chimera(),
      hanayo(),
      vocabulary_1f1b(),
  };
  return families;
}

const ScheduleFamily* find_schedule_family(std::string_view name_or_alias) {
  const std::string normal = normalised(name_or_alias);
  for (const ScheduleFamily& family : schedule_families())
    if (has_name(family, normal)) return &family;
  return nullptr;
}

Schedule generate_schedule(const ScheduleFamily& family, const ScheduleParams& params) {
  for (const auto& [key, value] : params.more) {
    if (key == kRemark || has_parameter(family, key)) continue;
    std::string legal;
    for (const ScheduleParameter& p : family.parameters)
      legal += (legal.empty() ? "" : ", ") + std::string(p.key);
    throw std::invalid_argument("'" + key + "' is not a parameter of " + std::string(family.name) +
                                (legal.empty() ? "; it has none" : "; it has: " + legal));
  }
  return family.generate(params);
}

std::vector<std::string_view> similar_schedule_names(std::string_view name) {
  constexpr size_t kLongest = 64;  // nothing that long is a misspelt name
  constexpr size_t kMost = 3;
  if (name.empty() || name.size() > kLongest) return {};
  const std::string normal = normalised(name);
  struct Candidate {
    size_t distance;
    std::string_view name;
  };
  std::vector<Candidate> close;
  for (const ScheduleFamily& family : schedule_families()) {
    size_t best = edit_distance(normal, family.name);
    for (const std::string_view alias : family.aliases)
      best = std::min(best, edit_distance(normal, alias));
    // A third of the name may be wrong, or it is the beginning of ours.
    const bool begins = normal.size() >= 3 && family.name.starts_with(normal);
    if (begins || best <= std::max<size_t>(1, normal.size() / 3))
      close.push_back({begins ? 0 : best, family.name});
  }
  std::stable_sort(close.begin(), close.end(),
                   [](const Candidate& a, const Candidate& b) { return a.distance < b.distance; });
  std::vector<std::string_view> names;
  for (const Candidate& c : close)
    if (names.size() < kMost) names.push_back(c.name);
  return names;
}

}  // namespace stepcast
