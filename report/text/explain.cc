// SPDX-License-Identifier: Apache-2.0
#include "report/text/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "report/text/intervals.h"
#include "report/text/roles.h"
#include "report/text/run.h"

namespace stepcast {

namespace {

constexpr int kLongestPath = 34;
constexpr int kLongestValue = 26;

int widest(std::span<const SettingLine> settings, std::string SettingLine::*field, int limit) {
  int width = 0;
  for (const SettingLine& s : settings)
    width = std::max(width, display_width(escape_text(s.*field)));
  return std::min(width, limit);
}

// Rows of cells under a header; the first column is flush left, the others flush right.
std::string table(const std::vector<std::vector<std::string>>& rows, const TextStyle& style) {
  return titled_table(rows, '<' + std::string(rows.front().size(), '>'), style);
}

std::string_view short_title(MemoryCategory c) {
  switch (c) {
    case MemoryCategory::parameters: return "params";
    case MemoryCategory::gradients: return "grads";
    case MemoryCategory::optimizer_state: return "optim";
    case MemoryCategory::activations: return "activ";
    case MemoryCategory::recompute_workspace: return "recomp";
    case MemoryCategory::workspace: return "work";
    case MemoryCategory::communication: return "comm";
    case MemoryCategory::logits: return "logits";
  }
  return "";
}

std::vector<int> used_categories(const Result& r) {
  std::vector<int> used;
  for (int c = 0; c < kMemoryCategories; ++c) {
    const bool any = std::any_of(r.memory.begin(), r.memory.end(), [c](const RankMemory& m) {
      return m.memory.at_peak[static_cast<size_t>(c)].value != 0;
    });
    if (any) used.push_back(c);
  }
  return used;
}

std::string activation_terms(const Result& r, std::span<const ActivationUnit> units,
                             const TextStyle& style) {
  const RankMemory& stage = r.memory[r.reserved_role];
  if (stage.activation_terms.empty()) return {};
  const ActivationUnit unit =
      r.reserved_role < units.size() ? units[r.reserved_role] : ActivationUnit{};
  const double divisor =
      unit.elements * unit.layers_per_chunk * static_cast<double>(stage.memory.peak_in_flight);
  std::vector<std::vector<std::string>> rows{{"tensor", "bytes at the peak", "GiB", "share"}};
  if (divisor > 0) rows.front().push_back("x s*b*h a layer");
  Bytes sum{};
  for (const auto& [label, bytes] : stage.activation_terms) sum += bytes;
  double coefficients = 0;
  for (const auto& [label, bytes] : stage.activation_terms) {
    const double v = static_cast<double>(bytes.value);
    rows.push_back({escape_text(label), grouped(bytes.value), gib(bytes),
                    percent(v / static_cast<double>(std::max<int64_t>(1, sum.value)))});
    if (divisor > 0) rows.back().push_back(fixed(v / divisor, 3));
    coefficients += divisor > 0 ? v / divisor : 0;
  }
  rows.push_back({"sum", grouped(sum.value), gib(sum), percent(1)});
  if (divisor > 0) rows.back().push_back(fixed(coefficients, 3));
  std::string s =
      fmt::format("\ntensors of the passes on {} at its peak ({} passes in flight at most)\n\n",
                  role_name(r, r.reserved_role), stage.memory.peak_in_flight);
  return s + table(rows, style);
}

// Short names of bubbles, explained under the table.
std::string_view cause_title(Spend s) {
  switch (s) {
    case Spend::fill:
    case Spend::imbalance:
    case Spend::drain:
    case Spend::blocked: return name_of(s);
    case Spend::idle_end: return "end";
    default: return title_of(s);
  }
}

}  // namespace

std::string explain_settings(std::span<const SettingLine> settings, const TextStyle& style) {
  const int path_width = widest(settings, &SettingLine::path, kLongestPath);
  const int value_width = widest(settings, &SettingLine::value, kLongestValue);
  std::string s;
  for (const SettingLine& setting : settings) {
    const std::string left = pad_right(escape_text(setting.path), path_width) + "  " +
                             pad_right(escape_text(setting.value), value_width);
    s += left + "  " + paint(escape_text(setting.origin), Tone::dim, style) + '\n';
  }
  return s;
}

namespace {

// Context and communicators, each with where it is counted from.
std::string beside_the_allocator(const Result& r, const TextStyle& style) {
  if (r.device_memory.empty()) return {};
  const auto is_small = [](const DeviceMemory& line) { return gib(line.bytes) == "0.0"; };
  int width = 32;
  for (const DeviceMemory& line : r.device_memory)
    if (!is_small(line)) width = std::max(width, display_width(escape_text(line.what)));
  std::string s;
  const auto add = [&](const std::string& what, const std::string& size,
                       const std::string& source) {
    s += "  " + pad_right(escape_text(what), width) + fmt::format("{:>6}", size);
    s += source.empty() ? "\n" : "  " + paint(escape_text(source), Tone::dim, style) + '\n';
  };
  add("beside the allocator", "GiB", "counted from");
  Bytes sum{}, small{};
  int64_t small_ones = 0;
  for (const DeviceMemory& line : r.device_memory) {
    sum += line.bytes;
    if (!is_small(line)) {
      add(line.what, gib(line.bytes), line.source);
      continue;
    }
    small += line.bytes;
    ++small_ones;
  }
  if (small_ones > 0) add(fmt::format("{} of less than 0.05 GiB", small_ones), gib(small), "");
  add("sum", gib(sum), "");
  return s + '\n';
}

}  // namespace

std::string explain_memory(const Result& r, std::span<const ActivationUnit> units,
                           const TextStyle& style) {
  if (r.reserved_role >= r.memory.size()) return "no memory was traced\n";
  const std::vector<int> used = used_categories(r);
  std::vector<std::vector<std::string>> rows{{"GiB at the peak"}};
  for (const int c : used) rows.front().emplace_back(short_title(static_cast<MemoryCategory>(c)));
  rows.front().emplace_back("peak");
  rows.front().emplace_back("reserved");
  rows.front().emplace_back("in flight");
  for (uint32_t i = 0; i < r.memory.size(); ++i) {
    const RoleMemory& m = r.memory[i].memory;
    std::vector<std::string> row{role_name(r, i)};
    for (const int c : used) row.push_back(gib(m.at_peak[static_cast<size_t>(c)]));
    row.push_back(gib(m.peak));
    row.push_back(gib(r.memory[i].reserved));
    row.push_back(std::to_string(m.peak_in_flight));
    rows.push_back(std::move(row));
  }
  std::string s = "memory by rank; " + gib(r.memory_usable) + " GiB are usable\n\n";
  s += table(rows, style);
  s += '\n';
  s += beside_the_allocator(r, style);
  const RankMemory& fullest = r.memory[r.reserved_role];
  std::string peak = "fullest: " + role_name(r, r.reserved_role);
  if (!fullest.peak_at.empty()) peak += ", at " + escape_text(fullest.peak_at);
  peak += ": " + gib(fullest.memory.peak) + " GiB allocated, " + gib(r.memory_reserved) +
          " GiB reserved by the caching allocator; " + memory_verdict(r);
  s += wrap(peak, "", style.width);
  if (const std::string trust = explain_memory_interval(r, style); !trust.empty())
    s += '\n' + trust;
  return s + activation_terms(r, units, style);
}

std::string explain_bubble(const Result& r, const TextStyle& style) {
  std::vector<int> causes;
  for (int i = 0; i < kSpends; ++i) {
    const auto spend = static_cast<Spend>(i);
    if (!is_bubble(spend) && spend != Spend::idle_end && spend != Spend::contention) continue;
    const bool any =
        std::any_of(r.account.by_role.begin(), r.account.by_role.end(),
                    [i](const SpendTable& t) { return t[static_cast<size_t>(i)].count() != 0; });
    if (any) causes.push_back(i);
  }
  std::vector<std::vector<std::string>> rows{{"% of the step", "busy", "exposed"}};
  for (const int c : causes) rows.front().emplace_back(cause_title(static_cast<Spend>(c)));
  rows.front().emplace_back("bubble");
  for (uint32_t role = 0; role < r.account.by_role.size(); ++role) {
    const SpendTable& t = r.account.by_role[role];
    const auto cell = [&](Time time) { return fixed(share_of(time, r.step_time) * 100, 1); };
    std::vector<std::string> row{role_name(r, role), cell(sum_if(t, is_compute)),
                                 cell(sum_if(t, is_exposed))};
    for (const int c : causes) row.push_back(cell(t[static_cast<size_t>(c)]));
    row.push_back(cell(sum_if(t, is_bubble)));
    if (role == r.account.critical_role) row[0] += " *";
    rows.push_back(std::move(row));
  }
  std::string s = table(rows, style) + '\n';
  if (r.disturbance && !r.disturbance->last_rank.empty())
    s += wrap("these are the ranks of one pipeline, that of " +
                  escape_text(r.disturbance->last_rank) + ", which ends last",
              "  ", style.width);
  s += "  * critical rank: least bubble and idling, so the step is as long as it needs.\n";
  s += "  fill: waiting before its first backward; imbalance: between that and its last\n";
  s += "  forward; drain: after it; blocked: for a rank held up by a send of its own;\n";
  const auto has = [&](Spend spend) {
    return std::find(causes.begin(), causes.end(), static_cast<int>(spend)) != causes.end();
  };
  if (has(Spend::straggler))
    s += "  straggler: for ranks slower than priced, in a collective or for their stage;\n";
  if (has(Spend::expert_imbalance))
    s += "  expert imbalance: for the rank whose experts got most tokens;\n";
  if (has(Spend::contention))
    s += "  contention: ops that take longer than alone (not counted as bubble);\n";
  return s + "  end: done while others still work (not counted as bubble).\n";
}

namespace {

std::string ms(Time t) {
  return fixed(to_seconds(t) * 1e3, 3);
}

}  // namespace

std::string explain_stages(const std::string& scenario, std::span<const StageLine> stages,
                           int64_t vpp) {
  std::vector<std::vector<std::string>> rows{
      {"F", "I", "W", "after F", "after I", "B", "# stage", "pp rank", "hop"}};
  Time longest{};
  std::set<int64_t> ranks;
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageLine& l = stages[s];
    ranks.insert(l.rank);
    rows.push_back({ms(l.forward) + ',', ms(l.backward_input) + ',', ms(l.backward_weight) + ',',
                    fmt::format("{},", l.after_forward), fmt::format("{},", l.after_input),
                    ms(l.backward), fmt::format("# {}", s), std::to_string(l.rank),
                    l.hop ? ms(*l.hop) : "-"});
    longest = std::max(longest, l.hop.value_or(Time{}));
  }
  std::string text = "# " + escape_text(scenario) +
                     ", one microbatch: passes and transfers in ms, bytes held after F and I.\n"
                     "# For stepcast schedule eval FAMILY " +
                     fmt::format("--pp {} --vpp {} -m MICROBATCHES", ranks.size(), vpp) +
                     " --stages FILE --costs 0,0,0," + ms(longest) + "\n";
  std::string begin = "# ";
  for (const std::string& line : align_columns(rows, ">>>>>>>>>")) {
    text += begin + line + '\n';
    begin = "  ";
  }
  return text;
}

void write_stages(JsonWriter& json, std::span<const StageLine> stages) {
  int64_t stage = 0;
  json.objects("stages", stages, [&](const StageLine& l) {
    json.member("stage", stage++);
    json.member("pp_rank", l.rank);
    json.member_time("forward", l.forward);
    json.member_time("backward", l.backward);
    json.member_time("backward_input", l.backward_input);
    json.member_time("backward_weight", l.backward_weight);
    json.member("bytes_after_forward", l.after_forward);
    json.member("bytes_after_input", l.after_input);
    json.member_time("hop", l.hop);
  });
}

namespace {

// Groups that put less than this on their fullest link are left out of the text: the gradient
// norm's reduction is a handful of bytes.
constexpr double kLeastBytes = 1e4;

using Rows = std::vector<std::vector<std::string>>;

std::string gigabytes(double bytes) {
  return fixed(bytes * 1e-9, bytes < 10e9 ? 3 : 1);
}

std::string share(double seconds, Time step) {
  return step > Time{} ? percent(seconds / to_seconds(step)) : "-";
}

std::string dashed(WorkKind kind) {
  std::string name(name_of(kind));
  std::replace(name.begin(), name.end(), '_', '-');
  return kind == WorkKind::send_recv ? "transfers" : name;
}

// "tp all-gather, reduce-scatter; pp transfers"
std::string what_runs(const LinkLoads& loads) {
  std::string text;
  for (size_t i = 0; i < loads.crossings.size();) {
    const Axis axis = loads.crossings[i].axis;
    std::vector<WorkKind> kinds;
    for (; i < loads.crossings.size() && loads.crossings[i].axis == axis; ++i)
      for (WorkKind k : loads.crossings[i].kinds)
        if (std::find(kinds.begin(), kinds.end(), k) == kinds.end()) kinds.push_back(k);
    text += text.empty() ? "" : "; ";
    text += name_of(axis);
    for (size_t k = 0; k < kinds.size(); ++k) text += (k == 0 ? " " : ", ") + dashed(kinds[k]);
  }
  return text;
}

}  // namespace

CellTable crossings_table(const LinkLoads& loads, Time step) {
  CellTable table(0);
  table.sides = "<>><>>>>>";
  Rows& rows = table.rows;
  rows = {{"axis", "groups", "of", "links", "used", "groups a link", "GB", "seconds", "of step"}};
  const LinkCrossing* before = nullptr;
  for (const LinkCrossing& c : loads.crossings) {
    if (c.bytes < kLeastBytes) continue;
    const bool first = before == nullptr || before->axis != c.axis;
    before = &c;
    rows.push_back({first ? std::string(name_of(c.axis)) : "", first ? grouped(c.groups) : "",
                    first ? grouped(c.ranks) : "", escape_text(c.links),
                    grouped(c.links_used) + " of " + grouped(c.links_there),
                    grouped(c.groups_per_link), gigabytes(c.bytes), fixed(c.seconds, 3),
                    share(c.seconds, step)});
  }
  return table;
}

namespace {

// Of the works that cross links of a kind.
Time exposed_over(const LinkLoads& loads, std::string_view links,
                  const std::map<WorkId, Time>& exposed) {
  std::set<WorkId> works;
  for (const LinkCrossing& c : loads.crossings)
    if (c.links == links) works.insert(c.works.begin(), c.works.end());
  Time sum{};
  for (const WorkId work : works)
    if (const auto found = exposed.find(work); found != exposed.end()) sum += found->second;
  return sum;
}

}  // namespace

CellTable fullest_table(const LinkLoads& loads, Time step, const std::map<WorkId, Time>& exposed) {
  CellTable table(0);
  table.sides = "<<<>>><";
  Rows& rows = table.rows;
  rows = {{"fullest", "from", "to", "GB", "seconds", "of step", "by"}};
  std::vector<std::string> over;
  for (const FullestLink& f : loads.fullest) {
    if (f.bytes < kLeastBytes) continue;
    std::string by;
    for (const auto& [axis, bytes] : f.bytes_by_axis) {
      if (bytes < kLeastBytes) continue;
      by += (by.empty() ? "" : ", ") + std::string(name_of(axis)) + ' ' + percent(bytes / f.bytes);
    }
    rows.push_back({escape_text(f.links), escape_text(f.from), escape_text(f.to),
                    gigabytes(f.bytes), fixed(f.seconds, 3), share(f.seconds, step),
                    std::move(by)});
    over.push_back(fixed(to_seconds(exposed_over(loads, f.links, exposed)), 3));
  }
  if (!exposed.empty()) table.add("exposed, s", '>', std::move(over));
  return table;
}

std::string explain_links(const LinkLoads& loads, std::string_view where, Time step,
                          const TextStyle& style) {
  std::string s = wrap(escape_text(where), "", style.width) + '\n';
  const bool any = std::any_of(loads.crossings.begin(), loads.crossings.end(),
                               [](const LinkCrossing& c) { return c.bytes >= kLeastBytes; });
  if (!any) return s + "  no group of ranks communicates\n";
  s += crossings_table(loads, step).text(style) + '\n' + fullest_table(loads, step).text(style) +
       '\n';
  s += wrap(what_runs(loads), "  ", style.width);
  s += wrap(
      "GB: 10^9 bytes of a step over the link that takes longest, one way; seconds: over its "
      "full bandwidth; groups a link: the most that share one.",
      "  ", style.width);
  return s;
}

void write_links(JsonWriter& json, const LinkLoads& loads) {
  json.object("links", [&] {
    json.objects("crossings", loads.crossings, [&](const LinkCrossing& c) {
      json.member("axis", name_of(c.axis));
      std::vector<std::string_view> kinds;
      for (const WorkKind k : c.kinds) kinds.push_back(name_of(k));
      json.values("kinds", kinds);
      json.member("groups", c.groups);
      json.member("ranks", c.ranks);
      json.member("links", c.links);
      json.member("links_used", c.links_used);
      json.member("links_there", c.links_there);
      json.member("groups_per_link", c.groups_per_link);
      json.member("bytes", c.bytes);
      json.member("seconds", c.seconds);
    });
    json.objects("fullest", loads.fullest, [&](const FullestLink& f) {
      json.member("links", f.links);
      json.member("from", f.from);
      json.member("to", f.to);
      json.member("bytes", f.bytes);
      json.member("seconds", f.seconds);
      json.object("bytes_by_axis", [&] {
        for (const auto& [axis, bytes] : f.bytes_by_axis) json.member(name_of(axis), bytes);
      });
    });
  });
}

}  // namespace stepcast
