// SPDX-License-Identifier: Apache-2.0
// explain.h: the critical path, and what things cost: prices, the host, in-situ parameters.
#include "report/text/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "report/text/intervals.h"
#include "report/text/roles.h"
#include "sim/check.h"

namespace stepcast {

namespace {

constexpr size_t kShownSegments = 60;

std::string microseconds(Time t) {
  return fixed(static_cast<double>(t.count()) * 1e-6, 1);
}

// "0F3 .. 0B1, 5 passes": what the items of a role that ran in [begin, end) were.
std::string what_ran(const Result& r, const PathSegment& segment) {
  if (!r.graph || segment.role >= r.graph->roles.size() || segment.role >= r.timeline.roles.size())
    return {};
  const auto& items = r.graph->roles[segment.role].items;
  const auto& times = r.timeline.roles[segment.role].items;
  const Item* first = nullptr;
  const Item* last = nullptr;
  size_t passes = 0;
  for (size_t i = 0; i < std::min(items.size(), times.size()); ++i) {
    const bool overlaps = times[i].end > segment.begin && times[i].begin < segment.end;
    if (items[i].kind != ItemKind::pass || !overlaps) continue;
    if (first == nullptr) first = &items[i];
    last = &items[i];
    ++passes;
  }
  const auto name = [&](const Item& item) {
    return item.has_action ? action_text(item)
                           : escape_text(r.graph->passes[static_cast<size_t>(item.pass)].name);
  };
  if (passes == 0) return {};
  if (passes == 1) return name(*first);
  return fmt::format("{} .. {}, {} passes", name(*first), name(*last), passes);
}

// "send activation, stage 0 to stage 1"
std::string what_was_sent(const Result& r, const PathSegment& segment) {
  const auto id = static_cast<size_t>(segment.rendezvous);
  if (!r.graph || id >= r.graph->rendezvous.size()) return {};
  const Rendezvous& rendezvous = r.graph->rendezvous[id];
  const Work& work = r.graph->works[static_cast<size_t>(rendezvous.work)];
  const std::string label = escape_text(r.graph->text(rendezvous.label));
  if (work.kind != WorkKind::send_recv) return label;
  const auto name = [&](uint32_t pipeline_rank) {
    const auto& roles = r.graph->roles;
    const auto at = std::ranges::find(roles, pipeline_rank, &RoleOps::pipeline_rank);
    return role_name(r, static_cast<uint32_t>(at - roles.begin()));
  };
  return label + ", " + name(work.from) + " to " + name(work.to);
}

std::string segment_line(const Result& r, const PathSegment& segment) {
  const bool transfer = segment.kind == PathSegment::Kind::rendezvous;
  std::string line = pad_left(microseconds(segment.begin), 14);
  line += pad_left(microseconds(segment.end - segment.begin), 14) + "  ";
  line += pad_right(transfer ? "transfer" : role_name(r, segment.role), 14) + "  " +
          (transfer ? what_was_sent(r, segment) : what_ran(r, segment));
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

// Time on the path by role, and on transfers.
std::string path_summary(const Result& r) {
  std::vector<Time> by_role;
  Time transfers{};
  for (const PathSegment& s : r.critical_path) {
    if (s.kind == PathSegment::Kind::rendezvous) {
      transfers += s.end - s.begin;
      continue;
    }
    if (s.role >= by_role.size()) by_role.resize(s.role + 1, Time{});
    by_role[s.role] += s.end - s.begin;
  }
  std::string text = "the longest chain of the step: ";
  text += fmt::format("{} stretches;", r.critical_path.size());
  for (uint32_t i = 0; i < by_role.size(); ++i) {
    if (by_role[i].count() == 0) continue;
    text += ' ' + role_name(r, i) + ' ' + percent(share_of(by_role[i], r.step_time)) + ',';
  }
  return text + " transfers " + percent(share_of(transfers, r.step_time));
}

}  // namespace

std::string explain_critical_path(const Result& r, const TextStyle& style) {
  if (r.critical_path.empty()) return "no critical path was traced\n";
  std::string s = wrap(path_summary(r), "", style.width) + '\n';
  s += paint("      begin us       length us  who             what", Tone::dim, style) + '\n';
  const size_t count = r.critical_path.size();
  for (size_t i = 0; i < count; ++i) {
    if (count > kShownSegments && i == kShownSegments / 2) {
      const size_t skipped = count - kShownSegments;
      s += fmt::format("           ... {} more, all of them with --json ...\n", skipped);
      i += skipped;
    }
    s += segment_line(r, r.critical_path[i]);
  }
  return s;
}

std::vector<CostLine> cost_lines(const Result& r) {
  STEPCAST_CHECK(r.graph && r.prices, "costs are read out of graph and prices");
  const OpGraph& graph = *r.graph;
  std::vector<int64_t> pass_runs(graph.passes.size(), 0);
  for (const RoleOps& role : graph.roles)
    for (const Item& item : role.items)
      if (item.kind == ItemKind::pass) ++pass_runs[static_cast<size_t>(item.pass)];
  std::vector<CostLine> all(graph.works.size());
  for (size_t w = 0; w < all.size(); ++w) all[w].work = static_cast<WorkId>(w);
  for (size_t p = 0; p < graph.passes.size(); ++p)
    for (const Op& op : graph.passes[p].ops) all[static_cast<size_t>(op.work)].runs += pass_runs[p];
  for (const Rendezvous& rv : graph.rendezvous) ++all[static_cast<size_t>(rv.work)].runs;
  for (CostLine& line : all)
    line.total = r.prices->by_work[static_cast<size_t>(line.work)].time * line.runs;
  std::erase_if(all, [](const CostLine& line) { return line.runs == 0; });
  std::stable_sort(all.begin(), all.end(),
                   [](const CostLine& a, const CostLine& b) { return a.total > b.total; });
  return all;
}

namespace {

// A line of the table; transfers of one size and price between different ranks are one line.
struct CostGroup {
  CostLine line;
  int pairs = 1;
};

std::vector<CostGroup> grouped_costs(const Result& r) {
  std::vector<CostGroup> groups;
  const auto alike = [&](WorkId a, WorkId b) {
    const Work& wa = r.graph->works[static_cast<size_t>(a)];
    const Work& wb = r.graph->works[static_cast<size_t>(b)];
    const Price& pa = r.prices->by_work[static_cast<size_t>(a)];
    const Price& pb = r.prices->by_work[static_cast<size_t>(b)];
    return wa.kind == WorkKind::send_recv && wb.kind == wa.kind && wa.bytes == wb.bytes &&
           pa.time == pb.time && pa.origin == pb.origin && pa.basis == pb.basis;
  };
  for (const CostLine& line : cost_lines(r)) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const CostGroup& g) {
      return alike(g.line.work, line.work);
    });
    if (same == groups.end()) {
      groups.push_back({line, 1});
      continue;
    }
    same->line.runs += line.runs;
    same->line.total += line.total;
    ++same->pairs;
  }
  std::stable_sort(groups.begin(), groups.end(), [](const CostGroup& a, const CostGroup& b) {
    return a.line.total > b.line.total;
  });
  return groups;
}

}  // namespace

std::string explain_costs(const Result& r, const TextStyle& style) {
  const std::vector<CostGroup> lines = grouped_costs(r);
  Time sum{};
  for (const CostGroup& group : lines) sum += group.line.total;
  std::string s =
      wrap("device time of the step by work, one rank of each stage", "", style.width) + '\n';
  s += paint("  share      runs x time each     origin        work, and how its time is known",
             Tone::dim, style) +
       '\n';
  for (const auto& [line, pairs] : lines) {
    const Price& price = r.prices->by_work[static_cast<size_t>(line.work)];
    s += pad_left(percent(share_of(line.total, sum)), 8);
    s += pad_left(grouped(line.runs), 9) + " x " + pad_right(format_time(price.time), 12);
    const Work& work = r.graph->works[static_cast<size_t>(line.work)];
    s += "  " + pad_right(name_of(price.origin), 12) + "  ";
    s += pairs == 1
             ? escape_text(describe(work))
             : fmt::format("send_recv between {} pairs of ranks, {} B", pairs, work.bytes.value);
    s += '\n';
    if (!price.basis.empty())
      s += std::string(48, ' ') + paint(escape_text(price.basis), Tone::dim, style) + '\n';
  }
  return s + '\n' + host_table(r, style) + '\n' + wrap(engine_sentence(r), "", style.width);
}

void write_costs(JsonWriter& json, const Result& r) {
  json.objects("costs", cost_lines(r), [&](const CostLine& line) {
    const Price& price = r.prices->by_work[static_cast<size_t>(line.work)];
    json.member("work", describe(r.graph->works[static_cast<size_t>(line.work)]));
    json.member("runs", line.runs);
    json.member_time("time", price.time);
    json.member("origin", name_of(price.origin));
    json.member("basis", price.basis);
    if (price.algorithm != Algorithm::none) {
      json.member("algorithm", name_of(price.algorithm));
      json.member("protocol", name_of(price.protocol));
    }
  });
  write_host(json, r);
  write_engine(json, r);
}

namespace {

HostTime of_role(const Result& r, const RoleOps& role) {
  const OpGraph& graph = *r.graph;
  HostTime host;
  host.role = role.name;
  std::vector<int64_t> runs(graph.launches.size(), 0);
  for (const Item& item : role.items) {
    if (item.kind == ItemKind::post)
      ++runs[static_cast<size_t>(graph.rendezvous[static_cast<size_t>(item.rendezvous)].launch)];
    if (item.kind != ItemKind::pass) continue;
    for (const Op& op : graph.passes[static_cast<size_t>(item.pass)].ops)
      ++runs[static_cast<size_t>(op.launch)];
  }
  for (size_t id = 0; id < std::min(runs.size(), r.prices->by_launch.size()); ++id) {
    const Time total = r.prices->by_launch[id] * runs[id];
    if (total == Time{}) continue;
    host.lines.push_back({static_cast<LaunchId>(id), runs[id], total});
    host.total += total;
  }
  std::ranges::stable_sort(host.lines, std::greater<>(), &HostLine::total);
  return host;
}

}  // namespace

HostTime host_time_of(const Result& r) {
  STEPCAST_CHECK(r.graph && r.prices, "host time is read out of graph and prices");
  HostTime longest;
  for (const RoleOps& role : r.graph->roles) {
    HostTime host = of_role(r, role);
    if (longest.role.empty() || host.total > longest.total) longest = std::move(host);
  }
  return longest;
}

std::string host_table(const Result& r, const TextStyle& style) {
  const HostTime host = host_time_of(r);
  std::string s = wrap("the host of " + escape_text(host.role) + " launches for " +
                           format_time(host.total) + " of the step",
                       "", style.width) +
                  '\n';
  for (const HostLine& line : host.lines) {
    const double share =
        static_cast<double>(line.total.count()) / static_cast<double>(host.total.count());
    const auto id = static_cast<size_t>(line.launch);
    s += pad_left(percent(share), 8) + pad_left(grouped(line.runs), 9) + " x " +
         pad_right(format_time(r.prices->by_launch[id]), 12) + "  " +
         describe(r.graph->launches[id]) + '\n';
  }
  return s;
}

void write_host(JsonWriter& json, const Result& r) {
  const HostTime host = host_time_of(r);
  json.objects("host", host.lines, [&](const HostLine& line) {
    const auto id = static_cast<size_t>(line.launch);
    json.member("launch", describe(r.graph->launches[id]));
    json.member("runs", line.runs);
    json.member_time("time", r.prices->by_launch[id]);
  });
}

namespace {

using Rows = std::vector<std::vector<std::string>>;

// With enough digits to continue the calculation by hand.
std::string micros(double us) {
  return fixed(us, us < 100 ? 4 : 2) + " us";
}

std::string constant(double value) {
  std::array<char, 400> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 6);
  return {text.data(), end.ptr};
}

std::string amount(double value) {
  return value < 1e18 ? grouped(static_cast<int64_t>(value)) : constant(value);
}

// "flops / 712.1 TFLOP/s (0.72 of the data sheet's)"
std::string term(std::string_view what, double rate, std::string_view unit, double share) {
  std::string s = std::string(what) + " / " + constant(rate) + ' ' + std::string(unit);
  if (share > 0) s += ", " + constant(share) + " of the data sheet's";
  return s;
}

std::string form_table(const PriceForm& f, const TextStyle& style) {
  const double compute = f.tflops > 0 ? f.flops / (f.tflops * 1e6) : 0;
  const double memory = f.gbs > 0 ? f.bytes / (f.gbs * 1e3) : 0;
  Rows rows = {{escape_text(f.source), ""}, {"t0", micros(f.t0_us)}};
  if (compute > 0)
    rows.push_back(
        {"c = " + amount(f.flops) + ' ' + term("flops", f.tflops, "TFLOP/s", f.tflops_share),
         micros(compute)});
  if (memory > 0)
    rows.push_back({"m = " + amount(f.bytes) + ' ' + term("bytes", f.gbs, "GB/s", f.gbs_share),
                    micros(memory)});
  rows.push_back({compute > 0 && memory > 0 ? "t0 + sqrt(c^2 + m^2)" : "their sum", micros(f.us)});
  return '\n' + titled_table(rows, "<>", style);
}

std::string rows_table(const PriceFactor& f, const TextStyle& style) {
  Rows rows = {{f.what, "time", "ratio", "distance^2", "weight"}};
  for (const PriceRow& r : f.rows)
    rows.push_back({escape_text(r.row), r.us > 0 ? micros(r.us) : "", fixed(r.ratio, 5),
                    r.us > 0 ? fixed(r.distance, 4) : "", fixed(r.weight, 5)});
  return '\n' + titled_table(rows, "<>>>>", style);
}

void write_row(JsonWriter& json, const PriceRow& r) {
  json.member("row", r.row);
  json.member("us", r.us);
  json.member("ratio", r.ratio);
  json.member("squared_distance", r.distance);
  json.member("weight", r.weight);
}

}  // namespace

std::string explain_price(const Work& work, const Price& price, const PriceParts& parts,
                          const TextStyle& style) {
  std::string s = paint(escape_text(describe(work)), Tone::strong, style) + '\n';
  s +=
      wrap(std::string(name_of(price.origin)) + ", " + escape_text(price.basis), "  ", style.width);
  if (!price.remark.empty()) s += wrap(escape_text(price.remark), "  ", style.width);
  if (parts.row.us > 0)
    s += '\n' +
         titled_table(Rows{{"row", "time"}, {escape_text(parts.row.row), micros(parts.row.us)}},
                      "<>", style);
  if (parts.form.us > 0) s += form_table(parts.form, style);
  Rows rows = {{"the price", ""}};
  if (parts.row.us > 0) rows.push_back({"row", micros(parts.row.us)});
  if (parts.form.us > 0) rows.push_back({"form", micros(parts.form.us)});
  for (const PriceFactor& f : parts.factors)
    rows.push_back({"x " + escape_text(f.what), fixed(f.value, 5)});
  const double alone = to_seconds(price.time - price.in_situ) * 1e6;
  if (!parts.in_situ.empty() && is_communication(work.kind)) {
    const double start = to_seconds(price.latency) * 1e6;
    rows.push_back({"start", micros(start)});
    rows.push_back({"bytes flow", micros(alone - start)});
  } else if (!parts.in_situ.empty() && parts.row.us <= 0 && parts.form.us <= 0) {
    rows.push_back({"alone", micros(alone)});
  }
  for (const PriceFactor& f : parts.in_situ)
    rows.push_back({"x in situ: " + f.what, fixed(f.value, 5)});
  rows.push_back({"time", micros(to_seconds(price.time) * 1e6)});
  s += '\n' + titled_table(rows, "<>", style);
  for (const PriceFactor& f : parts.factors)
    if (!f.rows.empty()) s += rows_table(f, style);
  return s;
}

void write_price(JsonWriter& json, const Work& work, const Price& price, const PriceParts& parts) {
  json.member("work", describe(work));
  json.member_time("time", price.time);
  json.member("origin", name_of(price.origin));
  json.member("basis", price.basis);
  if (!price.remark.empty()) json.member("remark", price.remark);
  json.member_time("in_situ", price.in_situ);
  if (parts.row.us > 0)
    json.object("row", [&] {
      json.member("row", parts.row.row);
      json.member("us", parts.row.us);
    });
  if (parts.form.us > 0)
    json.object("form", [&] {
      const PriceForm& f = parts.form;
      json.member("source", f.source);
      json.member("t0_us", f.t0_us);
      json.member("flops", f.flops);
      json.member("tflops", f.tflops);
      json.member("tflops_share", f.tflops_share);
      json.member("bytes", f.bytes);
      json.member("gbs", f.gbs);
      json.member("gbs_share", f.gbs_share);
      json.member("us", f.us);
    });
  json.objects("factors", parts.factors, [&](const PriceFactor& f) {
    json.member("what", f.what);
    json.member("value", f.value);
    json.objects("rows", f.rows, [&](const PriceRow& r) { write_row(json, r); });
  });
  if (is_communication(work.kind)) json.member_time("start", price.latency);
  json.objects("in_situ_factors", parts.in_situ, [&](const PriceFactor& f) {
    json.member("what", f.what);
    json.member("value", f.value);
  });
}

// ---- in-situ parameters

namespace {

std::string signed_time(Time t) {
  return (t < Time{} ? "-" : "+") + format_time(t < Time{} ? -t : t);
}

std::string with_width(double value, double sd) {
  return constant(value) + " \u00b1 " + constant(sd);
}

// Parameters that one or two sources say all that is known of.
std::string known_from_few(const InSituAnswer& answer, const TextStyle& style) {
  constexpr int64_t kFew = 2;
  std::string text;
  for (const InSituLine& l : answer.lines) {
    if (l.added == Time{} || l.sources < 1 || l.sources > kFew) continue;
    text += wrap(l.term + " (" + l.scope + "): all that is known is from " + grouped(l.runs) +
                     (l.runs == 1 ? " run of " : " runs of ") +
                     (l.sources == 1 ? "one source" : "two sources"),
                 "  ", style.width);
  }
  return text;
}

}  // namespace

std::string explain_in_situ(const InSituAnswer& answer, const TextStyle& style) {
  if (answer.lines.empty())
    return "no in-situ parameter holds for this step: in_situ is off, or it does not train\n";
  Rows rows = {{"term", "of", "unit", "value", "prior", "adds to the step", ""}};
  const auto add = [&](const InSituLine& l, std::string value, std::string prior) {
    rows.push_back({l.term, l.scope, l.unit, std::move(value), std::move(prior),
                    signed_time(l.added), excess_text(answer.step, answer.step + l.added)});
  };
  for (const InSituLine& l : answer.lines)
    if (l.added != Time{}) add(l, with_width(l.value, l.sd), with_width(l.prior, l.prior_sd));
  InSituLine all;
  all.term = "all of them";
  all.added = answer.step - answer.without;
  add(all, "", "");
  std::string runs = "published runs";
  if (answer.own_runs > 0)
    runs += fmt::format(" and {} own {} in {}", answer.own_runs,
                        answer.own_runs == 1 ? "run" : "runs", escape_text(answer.own_file));
  return wrap("in-situ parameters, estimated from " + runs + ", and what the step of " +
                  format_time(answer.step) + " is longer by for each; without any it takes " +
                  format_time(answer.without),
              "", style.width) +
         '\n' + titled_table(rows, "<<<>>>>", style) + known_from_few(answer, style);
}

void write_in_situ(JsonWriter& json, const InSituAnswer& answer) {
  json.object("in_situ", [&] {
    json.member_time("step", answer.step);
    json.member_time("without", answer.without);
    json.member("own_runs", answer.own_runs);
    json.objects("parameters", answer.lines, [&](const InSituLine& l) {
      json.member("term", l.term);
      json.member("scope", l.scope);
      json.member("unit", l.unit);
      json.member("value", l.value);
      json.member("sd", l.sd);
      json.member("prior", l.prior);
      json.member("prior_sd", l.prior_sd);
      json.member("prior_source", l.prior_source);
      json.member("runs", l.runs);
      json.member("sources", l.sources);
      json.member_time("adds", l.added);
    });
  });
}

}  // namespace stepcast
