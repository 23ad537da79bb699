// SPDX-License-Identifier: Apache-2.0
#include "report/text/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "report/text/compare.h"
#include "report/text/intervals.h"
#include "report/text/roles.h"

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
        std::max(share_of(t, whole), std::abs(share_of(line.saved.value_or(Time{}), whole)));
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

namespace {

constexpr size_t kFigureColumn = 17;
constexpr int kTitleWidth = 18;  // of the account's first column
constexpr int kBarWidth = 24;

// "  step time      13.62 s     tokens/s/GPU  150.4": a name, the figure, what else belongs to it.
std::string figure(std::string_view name, std::string_view value, std::string_view more,
                   const TextStyle& style) {
  std::string s = "  " + pad_right(name, 15);
  const std::string shown = paint(value, Tone::strong, style);
  s += pad_right(shown + "  ", 12);  // "13.62 s ± 4 %" is wider
  s += more;
  return s + '\n';
}

// Whether the step has an optimizer.
bool trains(const Result& r) {
  const auto updates = [](const Pass& pass) {
    return std::any_of(pass.ops.begin(), pass.ops.end(),
                       [](const Op& op) { return op.phase == Phase::optimizer; });
  };
  return r.graph == nullptr || std::any_of(r.graph->passes.begin(), r.graph->passes.end(), updates);
}

// What the optimizer's barrier costs.
std::string span_remark(const Result& r) {
  if (!trains(r)) return "what a step costs if the next follows at once";
  if (r.makespan > r.step_time) return "what a step costs: the optimizer is no barrier";
  constexpr double kShown = 0.0005;
  if (share_of(r.step_time - r.span, r.step_time) < kShown)
    return "optimizer post-validation would save nothing";
  return "the step with optimizer post-validation (" +
         fixed(share_of(r.step_time - r.span, r.step_time) * -100, 1) + " %)";
}

std::string speed_lines(const Result& r, const TextStyle& style) {
  const Utilization& u = r.utilization;
  const std::string rate = "tokens/s/GPU  " + rate_text(r.tokens_per_s_per_gpu);
  const std::string step =
      r.interval ? step_text(r.step_time, *r.interval) : format_time(r.step_time);
  std::string s = figure("step time", step, rate, style);
  if (r.interval)
    s += "  " + pad_right(interval_name(*r.interval), 15) +
         interval_text(r.step_time, *r.interval) + '\n';
  if (shows_span(r)) s += figure("span", format_time(r.span), span_remark(r), style);
  const std::string how =
      "(full attention; causal " + percent(u.mfu_causal_attention) + ")   HFU " + percent(u.hfu);
  s += figure("MFU", percent(u.mfu_full_attention), how, style);
  if (const std::string_view format = low_peak(u); !format.empty())
    s += std::string(kFigureColumn, ' ') +
         fmt::format("of the {} peak; HFU {} of the peaks of the formats in use\n", format,
                     percent(u.hfu_own_peaks));
  // Surprising, since HFU is known as MFU with recomputation.
  if (u.hfu < u.mfu_full_attention)
    s += std::string(kFigureColumn, ' ') + "HFU counts attention as executed, under its mask\n";
  return s;
}

// "  schedule       auto        order alone 1.400 ms, 0.8 % above its lower bound ...".
std::string synthesis_lines(const Result& r, const TextStyle& style) {
  if (!r.synthesis) return {};
  const SynthesisFacts& f = *r.synthesis;
  const std::string how = f.gap ? "order alone " + format_time(f.objective) + ", " +
                                      percent(*f.gap) + " above its lower bound"
                                : "pairs hide communication: no lower bound is known";
  std::string s = figure("schedule", "auto", how, style);
  const std::string order =
      f.winner == kMadeToMeasure
          ? "search from " + escape_text(f.start) + " at " + format_time(f.start_time) + " won"
          : escape_text(f.winner) + " won as it is";
  const std::string indent(kFigureColumn, ' ');
  s += wrap(order + "; " + grouped(f.orders_tried) + " orders tried", indent, style.width);
  if (f.could_have_chunks)
    s += indent + "one chunk a rank; parallel.vpp: 2 allows V-shaped orders\n";
  return s;
}

std::string ranks_text(int64_t n) {
  return grouped(n) + (n == 1 ? " rank" : " ranks");
}

// Which ranks are slow and which wait for them, in a sentence.
std::string disturbance_sentence(const Disturbance& d) {
  std::string s = escape_text(d.last_rank) + " ends last";
  if (!d.critical_rank.empty() && d.critical_rank != d.last_rank)
    s += "; critical in its pipeline is " + escape_text(d.critical_rank);
  if (d.slow_ranks > 0) s += "; " + ranks_text(d.slow_ranks) + " slower than priced";
  if (d.fast_ranks > 0) s += "; " + ranks_text(d.fast_ranks) + " faster than priced";
  if (d.slow_links > 0) s += "; " + ranks_text(d.slow_links) + " on slower links";
  if (d.shared_links) s += "; transfers share links";
  if (d.interference) s += "; compute and communication slow each other down";
  if (d.jitter) s += "; every op takes a factor of its own";
  if (d.waiting > 0)
    s += "; " + ranks_text(d.waiting) + (d.waiting == 1 ? " waits " : " wait ") +
         format_time(d.mean_wait) + " longer" + (d.waiting == 1 ? "" : " on average");
  return s;
}

bool is_contended(const Disturbance& d) {
  return d.shared_links || d.interference;
}

bool ranks_differ(const Disturbance& d) {
  return d.slow_ranks > 0 || d.fast_ranks > 0 || d.slow_links > 0 || d.jitter;
}

// Equal ranks whose transfers share no links: one of them stands for all.
bool only_interferes(const Disturbance& d) {
  return d.interference && !d.shared_links && !ranks_differ(d);
}

// Of the undisturbed step.
std::string more_than(Time from, Time to, const Disturbance& d) {
  return fixed(share_of(to - from, d.undisturbed) * 100, 1) + " %";
}

// "ranks that differ cost 12.1 %, contention 0.8 %", of the undisturbed step.
std::string cost_of_disturbance(const Result& r, const Disturbance& d) {
  const auto more = [&](Time from, Time to) { return more_than(from, to, d); };
  if (!is_contended(d)) return "ranks that differ cost " + more(d.undisturbed, r.step_time);
  if (!ranks_differ(d)) return "contention costs " + more(d.undisturbed, r.step_time);
  if (!d.without_contention)
    return "ranks that differ and contention cost " + more(d.undisturbed, r.step_time);
  return "ranks that differ cost " + more(d.undisturbed, *d.without_contention) + ", contention " +
         more(*d.without_contention, r.step_time);
}

// The step against that of equal ranks, and the spread over seeds.
std::string disturbance_lines(const Result& r, const TextStyle& style) {
  std::string s;
  const std::string indent(kFigureColumn, ' ');
  if (r.disturbance && only_interferes(*r.disturbance)) {
    const Disturbance& d = *r.disturbance;
    if (r.step_time != d.undisturbed)
      s += figure("undisturbed", format_time(d.undisturbed),
                  "compute beside communication costs " + more_than(d.undisturbed, r.step_time, d),
                  style);
  } else if (r.disturbance) {
    const Disturbance& d = *r.disturbance;
    const bool differ = ranks_differ(d) || is_contended(d);
    const std::string costs =
        differ ? cost_of_disturbance(r, d) : "all " + grouped(d.ranks) + " ranks are equal";
    s += figure("undisturbed", format_time(d.undisturbed), costs, style);
    s += wrap(differ ? disturbance_sentence(d) : grouped(d.lanes) + " of them simulated one by one",
              indent, style.width);
  }
  if (r.replicas) {
    const ReplicaTimes& t = *r.replicas;
    s += figure("replicas", grouped(t.count) + " seeds",
                "mean " + format_time(t.mean) + "   median " + format_time(t.p50), style);
    s += indent + "p5 " + format_time(t.p5) + "   p95 " + format_time(t.p95) + "   min " +
         format_time(t.min) + "   max " + format_time(t.max) + '\n';
  }
  return s;
}

// Of the fullest rank.
std::string memory_lines(const Result& r, const TextStyle& style) {
  if (r.reserved_role >= r.memory.size()) return {};
  const RankMemory& stage = r.memory[r.reserved_role];
  const std::string indent(kFigureColumn, ' ');
  std::string s = peak_memory_lines(r, style);
  if (r.reserved_interval)
    s += "  " + pad_right(interval_name(*r.reserved_interval), 15) +
         interval_text(r.memory_reserved, *r.reserved_interval) + '\n';
  std::string allocated = "reserved, of which " + gib(stage.memory.peak) + " allocated";
  if (!stage.peak_at.empty()) allocated += " at " + escape_text(stage.peak_at);
  return s + wrap(allocated, indent, style.width);
}

// "on pp rank 7, which is critical; 5.1 to 5.7 % on others".  Says how large the bubbles of the
// other ranks are, for the critical rank usually has the least.  In a forward alone ranks may be
// done before it, which is no bubble, and nothing is said.
std::string other_bubbles(const Result& r) {
  std::vector<double> others;
  for (uint32_t role = 0; role < r.account.by_role.size(); ++role)
    if (role != r.account.critical_role)
      others.push_back(share_of(sum_if(r.account.by_role[role], is_bubble), r.step_time));
  if (others.empty()) return {};
  const auto [least, most] = std::ranges::minmax(others);
  if (least < share_of(sum_if(r.account.by_role[r.account.critical_role], is_bubble), r.step_time))
    return {};
  const std::string low = percent(least), high = percent(most);
  const std::string range = low == high ? low : low.substr(0, low.find(' ')) + " to " + high;
  return std::string(kFigureColumn, ' ') + "on " + role_name(r, r.account.critical_role) +
         ", which is critical; " + range + " on " + (others.size() == 1 ? "the other" : "others") +
         '\n';
}

std::string losses_line(const Result& r, const TextStyle& style) {
  if (r.account.critical_role >= r.account.by_role.size()) return {};
  const Time exposed = sum_if(r.account.by_role[r.account.critical_role], is_exposed);
  return figure("bubble", percent(share_of(r.bubble, r.step_time)),
                "exposed communication  " + percent(share_of(exposed, r.step_time)), style) +
         other_bubbles(r);
}

// In quanta of `scale`; 0 if nothing would be saved.
int64_t saved_quanta(const AccountLine& line, const TimeScale& scale) {
  const int64_t half = scale.quantum_ps / 2;
  const int64_t ps = line.saved.value_or(Time{}).count();
  return (ps + (ps < 0 ? -half : half)) / scale.quantum_ps;
}

std::string saving(const AccountLine& line, const TimeScale& scale) {
  if (!line.saved) return "-";
  const int64_t quanta = saved_quanta(line, scale);
  if (quanta == 0) return "0 " + std::string(scale.unit);
  const std::string number = format_quanta(-quanta, scale);
  return (quanta < 0 ? "+" : "") + number + ' ' + std::string(scale.unit);
}

// Without the optimizer its collectives fall away too, which the account has under what is exposed:
// said where the one line would contradict the other.
std::string optimizer_note(const Result& r, uint32_t role) {
  constexpr double kShown = 0.005;  // of the step
  const Time own = r.account.by_role[role][static_cast<size_t>(Spend::optimizer)];
  const std::optional<Time> saved = saved_by(r, Spend::optimizer);
  if (!saved || share_of(*saved - own, r.step_time) < kShown) return {};
  return "  optimizer, if it were free: with its collectives and copies (exposed above)\n";
}

// Stages that differ may fit their schedule better than equal ones.
std::string imbalance_note(const std::vector<AccountLine>& lines, const TimeScale& scale) {
  const auto line = std::ranges::find(lines, title_of(Spend::imbalance), &AccountLine::title);
  if (line == lines.end() || saved_quanta(*line, scale) >= 0) return {};
  return "  imbalance, if it were free: stages of equal times would make the step longer\n";
}

std::string account_table(const Result& r, const TextStyle& style) {
  const uint32_t role = r.account.critical_role;
  if (role >= r.account.by_role.size()) return {};
  const std::vector<AccountLine> lines = account_lines(r, role);
  if (lines.empty()) return {};
  std::vector<Time> times;
  for (const AccountLine& l : lines) times.push_back(l.time);
  Time whole{};
  for (const Time t : times) whole += t;
  const TimeScale scale = scale_of(whole);
  // Both columns add up as shown: times to the step time, shares to 100.0 %.
  const std::vector<int64_t> quanta =
      apportion(times, (whole.count() + scale.quantum_ps / 2) / scale.quantum_ps);
  const std::vector<int64_t> tenths = apportion(times, 1000);
  const int64_t longest = std::max<int64_t>(1, *std::max_element(tenths.begin(), tenths.end()));

  const bool what_if = !r.what_if.empty();
  std::string head = "  where the step goes (critical rank: " + role_name(r, role) + ')';
  std::string s = '\n' + (what_if ? pad_right(head, 65) + "if it were free" : head) + '\n';
  if (what_if && r.what_if_without_contention) s += pad_left("(without contention)", 80) + '\n';
  for (size_t i = 0; i < lines.size(); ++i) {
    if (quanta[i] == 0 && tenths[i] == 0 && saved_quanta(lines[i], scale) == 0) continue;
    const int64_t bar = (tenths[i] * kBarWidth + longest / 2) / longest;
    std::string line = "  " + pad_right(lines[i].title, kTitleWidth);
    line += pad_left(format_quanta(quanta[i], scale) + ' ' + std::string(scale.unit), 11);
    line += pad_left(fixed(static_cast<double>(tenths[i]) / 10, 1) + " %", 9) + "  ";
    const std::string hashes(static_cast<size_t>(bar), '#');
    line += paint(hashes, lines[i].tone, style);
    if (what_if) {
      line = pad_right(line, 68) + pad_left(saving(lines[i], scale), 12);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    s += line + '\n';
  }
  s += optimizer_note(r, role);
  if (what_if) s += imbalance_note(lines, scale);
  if (r.what_if_left_out)
    s += "  if it were free: left out where so many ranks differ; --what-if asks for it\n";
  return s;
}

// "TP 8  PP 8  VPP 3  DP 1".  TP, PP and DP are always there; other sizes of 1 and ZeRO's stage 0
// are left out.
std::string layout_text(const ScenarioSummary& s) {
  std::string text = fmt::format("TP {}", s.tp);
  const auto add = [&](const char* name, int64_t value, int64_t silent) {
    if (value != silent) text += fmt::format("  {} {}", name, value);
  };
  add("CP", s.cp, 1);
  add("EP", s.ep, 1);
  add("ETP", s.etp, 1);
  add("PP", s.pp, 0);
  add("VPP", s.vpp, 1);
  add("DP", s.dp, 0);
  add("ZeRO", s.zero, 0);
  return text;
}

std::string trust_lines(const Result& r, const TextStyle& style) {
  const std::string first = "  trust    ";
  std::array<std::string, 2> pieces{trust_sentence(r), {}};
  if (!r.calibration.empty()) pieces[1] = '(' + escape_text(r.calibration) + ')';
  std::string s = flow(pieces, style.width - static_cast<int>(first.size()));
  if (s.empty()) return s;
  const size_t second = s.find('\n') + 1;
  if (second < s.size()) s.insert(second, first.size(), ' ');
  return first + s;
}

}  // namespace

std::string headline(const ScenarioSummary& s, const TextStyle& style) {
  const std::array<std::string, 5> pieces{
      paint(escape_text(s.name), Tone::strong, style),
      fmt::format("{} x {}", s.gpus, escape_text(s.gpu)), layout_text(s),
      fmt::format("GBS {}  MBS {}  seq {}", s.global_batch, s.micro_batch, s.seq) +
          (s.mtp_layers > 0 ? fmt::format("  MTP {}", s.mtp_layers) : ""),
      escape_text(s.schedule)};
  return flow(pieces, style.width);
}

Fit fit_of(const Result& r) {
  constexpr double kSure = 0.9;
  if (!r.fits_share) return r.fits ? Fit::fits : Fit::does_not;
  if (r.fits && *r.fits_share >= kSure) return Fit::fits;
  if (r.fits && *r.fits_share >= 0.5) return Fit::probably;
  return r.fits || *r.fits_share > 1 - kSure ? Fit::may_run_out : Fit::does_not;
}

Tone tone_of(Fit fit) {
  switch (fit) {
    case Fit::fits: return Tone::good;
    case Fit::probably:
    case Fit::may_run_out: return Tone::warn;
    case Fit::does_not: break;
  }
  return Tone::bad;
}

std::string memory_verdict(const Result& r) {
  const Bytes left = r.memory_usable - r.memory_reserved;
  const auto of_steps = [&] {
    return fixed(100 * r.fits_share.value_or(0), 0) + " % of such steps";
  };
  switch (fit_of(r)) {
    case Fit::probably: return "probably fits: " + of_steps() + " do";
    case Fit::may_run_out: return "may run out of memory: " + of_steps() + " fit";
    case Fit::does_not:
      return "does NOT fit: out of memory by " + gib(-left) + " GiB on " +
             role_name(r, r.reserved_role);
    case Fit::fits: break;
  }
  if (r.memory_usable.value <= 0) return "fits";
  const double free = static_cast<double>(left.value) / static_cast<double>(r.memory_usable.value);
  return "fits, " + fixed(free * 100, 0) + " % free";
}

std::string_view low_peak(const Utilization& u) {
  return u.hfu_own_peaks < u.hfu * 0.99 ? u.format : "";
}

std::string mfu_title(std::span<const Utilization> rows, std::string_view unit) {
  const auto low =
      std::ranges::find_if(rows, [](const Utilization& u) { return !low_peak(u).empty(); });
  if (low == rows.end()) return fmt::format("MFU{}", unit);
  const bool one_peak =
      std::ranges::all_of(rows, [&](const Utilization& u) { return u.format == low->format; });
  return fmt::format("MFU{} ({})", unit, one_peak ? low->format : "of parameters' format");
}

std::string peak_memory_lines(const Result& r, const TextStyle& style) {
  const Fit fit = fit_of(r);
  const std::string verdict = paint(memory_verdict(r), tone_of(fit), style);
  std::string more = "of " + gib(r.memory_usable) + " usable on " + role_name(r, r.reserved_role);
  if (fit == Fit::fits) more += ": " + verdict;
  std::string s = figure("peak memory", gib(r.memory_reserved) + " GiB", more, style);
  if (fit != Fit::fits) s += std::string(kFigureColumn, ' ') + verdict + '\n';
  return s;
}

std::string_view origin_words(Origin origin) {
  return origin == Origin::fitted ? "fitted to runs" : name_of(origin);
}

std::vector<int64_t> trust_percents(const Result& r) {
  std::array<Time, kOrigins> parts;
  for (size_t i = 0; i < kOrigins; ++i) {
    parts[i] = Time{static_cast<int64_t>(r.trust[i] * 1e12)};
  }
  return apportion(parts, 100);
}

std::string trust_sentence(const Result& r) {
  const std::vector<int64_t> shown = trust_percents(r);
  std::string s;
  for (size_t i = 0; i < kOrigins; ++i) {
    if (r.trust[i] <= 0) continue;
    const std::string share = shown[i] == 0 ? "<1 %" : fmt::format("{} %", shown[i]);
    s += fmt::format("{}{}{} {}", s.empty() ? "" : ", ", share, s.empty() ? " of the time" : "",
                     origin_words(static_cast<Origin>(i)));
  }
  return s;
}

std::string next_step(const Result& r, const std::string& read_by) {
  if (!r.fits) {
    return "`stepcast explain --memory " + read_by + "` lists what fills " +
           role_name(r, r.reserved_role);
  }
  const auto& roles = r.account.by_role;
  if (roles.size() < 2 || r.account.critical_role >= roles.size()) return {};
  std::vector<std::pair<Time, uint32_t>> compute;
  for (uint32_t i = 0; i < roles.size(); ++i) compute.emplace_back(sum_if(roles[i], is_compute), i);
  const auto slowest = std::max_element(compute.begin(), compute.end(),
                                        [](auto& a, auto& b) { return a.first < b.first; });
  const uint32_t slow_role = slowest->second;
  const Time most = slowest->first;
  std::stable_sort(compute.begin(), compute.end(),
                   [](auto& a, auto& b) { return a.first < b.first; });
  const Time typical = compute[(compute.size() - 1) / 2].first;
  const double excess = share_of(most - typical, typical);
  const SpendTable& table = roles[r.account.critical_role];
  const Time ramp =
      table[static_cast<size_t>(Spend::fill)] + table[static_cast<size_t>(Spend::drain)];
  // The larger of the two is worth a remark.
  if (share_of(ramp, r.step_time) > 0.1 && ramp > most - typical) {
    return "pipeline fill and drain take " + percent(share_of(ramp, r.step_time)) +
           " of the step; more microbatches or more chunks (parallel.vpp) shrink that share";
  }
  const bool as_priced = !r.disturbance || r.disturbance->slow_ranks == 0;
  if (excess > 0.03 && as_priced) {
    const std::string others =
        roles.size() == 2 ? role_name(r, slow_role == 0 ? 1 : 0) : "the median one";
    return role_name(r, slow_role) + " computes " + fixed(excess * 100, 0) + " % longer than " +
           others + " and sets the pace; parallel.layout moves layers";
  }
  return {};
}

std::string text_report(const Result& r, const TextStyle& style, const std::string& read_by) {
  std::string s = headline(r.scenario, style) + '\n';
  s += speed_lines(r, style);
  s += disturbance_lines(r, style);
  s += synthesis_lines(r, style);
  s += memory_lines(r, style);
  s += losses_line(r, style);
  s += account_table(r, style);
  s += '\n';
  s += trust_lines(r, style);
  for (const std::string& warning : r.scenario.warnings) {
    s += wrap(escape_text(warning), "  " + paint("warning", Tone::warn, style) + "  ", style.width);
  }
  const std::string next = next_step(r, read_by);
  if (!next.empty()) s += wrap(next, "  next     ", style.width);
  return s;
}

}  // namespace stepcast
