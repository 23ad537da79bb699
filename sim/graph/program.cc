// SPDX-License-Identifier: Apache-2.0

#include "sim/graph/program.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "sim/check.h"

namespace stepcast {
namespace {

OpCode code_of(const WaitSlots& slots, uint32_t op) {
  if (slots.end[op] >= 0)
    return slots.start[op] >= 0 ? OpCode::run_mark_both : OpCode::run_mark_end;
  return slots.start[op] >= 0 ? OpCode::run_mark_start : OpCode::run;
}

// Appends `next` to the chain `tail`, both on one stream and launched one after the other.
void merge(Instruction& tail, const Instruction& next) {
  tail.lead = std::max(tail.lead + next.duration, tail.launch + next.lead);
  tail.duration += next.duration;
  tail.launch += next.launch;
  tail.code = next.code;
  tail.slot = next.slot;
}

// The streams that a pass uses, in order, and the place of each among them.
struct UsedStreams {
  std::vector<Stream> streams;
  std::array<size_t, kStreams> place{};

  explicit UsedStreams(const CompiledPass& pass) {
    std::array<bool, kStreams> used{};
    for (const Instruction& in : pass.code) used[static_cast<size_t>(in.stream)] = true;
    for (size_t s = 0; s < kStreams; ++s) {
      if (!used[s]) continue;
      place[s] = streams.size();
      streams.push_back(static_cast<Stream>(s));
    }
  }
};

// Runs the instructions on vectors of (max,+) coefficients instead of times.
PassStep collapse(const CompiledPass& pass, const UsedStreams& used) {
  const size_t all = used.streams.size() + 1;  // the host comes last
  using Row = std::array<int64_t, kStreams + 1>;
  Row never;
  never.fill(PassStep::kNever);
  std::array<Row, kStreams + 1> now;
  now.fill(never);
  for (size_t i = 0; i < all; ++i) now[i][i] = 0;
  Row& host = now[all - 1];
  const auto later = [&](Row row, int64_t by) {
    for (size_t i = 0; i < all; ++i) row[i] = row[i] == PassStep::kNever ? row[i] : row[i] + by;
    return row;
  };
  const auto raise = [&](Row& row, const Row& to) {
    for (size_t i = 0; i < all; ++i) row[i] = std::max(row[i], to[i]);
  };
  std::vector<Row> slots(pass.slots, never);
  for (const Instruction& in : pass.code) {
    Row& stream = now[used.place[static_cast<size_t>(in.stream)]];
    if (in.code == OpCode::wait) {
      raise(stream, later(slots[in.slot], in.duration));
      continue;
    }
    Row begin = stream;
    raise(begin, later(host, in.lead - in.duration));
    stream = later(begin, in.duration);
    host = later(host, in.launch);
    uint32_t slot = in.slot;
    if (in.code == OpCode::run_mark_end || in.code == OpCode::run_mark_both) slots[slot++] = stream;
    if (in.code == OpCode::run_mark_start || in.code == OpCode::run_mark_both) slots[slot] = begin;
  }
  PassStep out;
  out.streams = used.streams;
  out.step.reserve(all * all);
  for (size_t i = 0; i < all; ++i)
    for (size_t j = 0; j < all; ++j) out.step.push_back(now[i][j]);
  return out;
}

// Runs the instructions twice beside each other, with the other streams free since ever and since
// 0, where the compute stream is free.  All that the engine does is monotone in these times: where
// both agree, so does everything between.  The host is let out; how late it may be for that is the
// slack.
UndisturbedPass undisturbed(const CompiledPass& pass, const UsedStreams& used) {
  constexpr int64_t kNever = PassStep::kNever;
  using Both = std::array<int64_t, 2>;
  std::array<Both, kStreams> now;
  now.fill({kNever, 0});
  now[static_cast<size_t>(Stream::compute)] = {0, 0};
  std::vector<Both> slots(pass.slots, Both{kNever, kNever});
  UndisturbedPass out;
  std::array<int64_t, kSpends> inside{};
  int64_t slack = INT64_MAX;
  for (const Instruction& in : pass.code) {
    Both& stream = now[static_cast<size_t>(in.stream)];
    if (in.code == OpCode::wait) {
      const Both& slot = slots[in.slot];
      const Both until{slot[0] + in.duration, slot[1] + in.duration};
      if (in.stream == Stream::compute) {
        if (slot[0] != slot[1] || stream[0] != stream[1]) return {};
        if (until[0] > stream[0]) {
          const int64_t waited = std::clamp(slot[0], stream[0], until[0]);
          inside[static_cast<size_t>(pass.slot_spend[in.slot])] += waited - stream[0];
          inside[static_cast<size_t>(Spend::launch)] += until[0] - waited;
        }
      }
      for (size_t i = 0; i < 2; ++i) stream[i] = std::max(stream[i], until[i]);
      continue;
    }
    // What comes first on a stream that was free since ever is late for no host.
    if (stream[0] <= kNever / 2) return {};
    const Both begin = stream;
    for (int64_t& t : stream) t += in.duration;
    slack = std::min(slack, stream[0] - out.launch - in.lead);
    out.launch += in.launch;
    uint32_t slot = in.slot;
    if (in.code == OpCode::run_mark_end || in.code == OpCode::run_mark_both) slots[slot++] = stream;
    if (in.code == OpCode::run_mark_start || in.code == OpCode::run_mark_both) slots[slot] = begin;
  }
  if (used.streams.empty()) return {};
  out.ends.reserve(used.streams.size());
  for (const Stream s : used.streams) {
    const Both& end = now[static_cast<size_t>(s)];
    if (end[0] != end[1]) return {};
    out.ends.emplace_back(s, end[0]);
  }
  for (size_t s = 0; s < inside.size(); ++s)
    if (inside[s] != 0) out.inside.emplace_back(static_cast<Spend>(s), inside[s]);
  out.slack = slack;
  return out;
}

CompiledPass compile_pass(const OpGraph& graph, const Pass& pass, const Prices& prices,
                          const std::vector<int64_t>& launch_ps, const Variation& variation,
                          double scale, bool merged) {
  CompiledPass out;
  const WaitSlots slots = wait_slots(pass);
  STEPCAST_CHECK(slots.op.size() <= kMostSlots, "pass with more slots than an op can name");
  out.slots = static_cast<uint32_t>(slots.op.size());
  out.slot_spend.reserve(slots.op.size());
  for (const uint32_t op : slots.op) {
    const Op& o = pass.ops[op];
    out.slot_spend.push_back(spend_of(graph.works[static_cast<size_t>(o.work)], o.phase));
  }
  out.device_ops = static_cast<uint32_t>(pass.ops.size());
  out.code.reserve(pass.ops.size() + pass.waits.all().size());
  bool open = false;  // the last instruction may be continued
  for (uint32_t op = 0; op < pass.ops.size(); ++op) {
    const Op& o = pass.ops[op];
    for (const Wait& w : pass.waits.of(op)) {
      if (is_implied(pass, w)) continue;
      const int32_t slot = (w.from_start ? slots.start : slots.end)[w.on];
      out.code.push_back({.duration = varied_delay(w.delay, variation),
                          .code = OpCode::wait,
                          .stream = o.stream,
                          .slot = static_cast<uint16_t>(slot),
                          .op = op});
      open = false;
    }
    const Work& work = graph.works[static_cast<size_t>(o.work)];
    const int64_t ps = varied_ps(prices.by_work[static_cast<size_t>(o.work)].time.count(), work,
                                 o.phase, variation, scale);
    const int64_t launch = launch_ps[static_cast<size_t>(o.launch)];
    Instruction in{.duration = ps,
                   .lead = launch + ps,
                   .launch = launch,
                   .code = code_of(slots, op),
                   .stream = o.stream,
                   .op = op};
    const int32_t slot = slots.end[op] >= 0 ? slots.end[op] : slots.start[op];
    if (slot >= 0) in.slot = static_cast<uint16_t>(slot);
    if (o.stream == Stream::compute) {
      out.busy[static_cast<size_t>(spend_of(work, o.phase))] += ps;
    }
    const bool marks_start = slots.start[op] >= 0;
    if (merged && open && !marks_start && out.code.back().stream == o.stream) {
      merge(out.code.back(), in);
    } else {
      out.code.push_back(in);
    }
    open = in.code == OpCode::run;
  }
  const UsedStreams used(out);
  out.whole = collapse(out, used);
  out.undisturbed = undisturbed(out, used);
  return out;
}

}  // namespace

Time compute_time(const Pass& pass, const Prices& prices) {
  Time sum{};
  for (const Op& op : pass.ops)
    if (op.stream == Stream::compute) sum += prices.by_work[static_cast<size_t>(op.work)].time;
  return sum;
}

Program compile(const OpGraph& graph, const Prices& prices, const Variation& variation,
                bool merged) {
  STEPCAST_CHECK(prices.by_work.size() == graph.works.size(), "one price for each work");
  Program program;
  program.graph = &graph;
  program.merged = merged;
  program.launch_ps = varied_launches(graph, prices, variation);
  program.passes.reserve(graph.passes.size());
  for (size_t i = 0; i < graph.passes.size(); ++i) {
    const double scale = variation.pass_scale.empty() ? 1 : variation.pass_scale[i];
    program.passes.push_back(
        compile_pass(graph, graph.passes[i], prices, program.launch_ps, variation, scale, merged));
  }
  program.rendezvous_ps.reserve(graph.rendezvous.size());
  for (const Rendezvous& r : graph.rendezvous) {
    const auto id = static_cast<size_t>(r.work);
    program.rendezvous_ps.push_back(
        varied_ps(prices.by_work[id].time.count(), graph.works[id], Phase::forward, variation));
    program.post_ps.push_back(program.launch_ps[static_cast<size_t>(r.launch)]);
  }
  return program;
}

namespace {

int64_t scaled(int64_t ps, double factor) {
  if (factor == 1) return ps;
  return static_cast<int64_t>(static_cast<double>(ps) * factor + 0.5);
}

// Works of other durations, each once.
class VariedWorks {
 public:
  explicit VariedWorks(VariedStep& step) : step_(step) {}

  WorkId with(WorkId work, int64_t ps) {
    const auto index = static_cast<size_t>(work);
    if (step_.prices.by_work[index].time.count() == ps) return work;
    const auto [it, fresh] = known_.try_emplace({index, ps}, step_.graph.works.size());
    if (fresh) {
      step_.graph.works.push_back(Work(step_.graph.works[index]));
      step_.prices.by_work.push_back(Price(step_.prices.by_work[index]));
      step_.prices.by_work.back().time = Time{ps};
    }
    return static_cast<WorkId>(it->second);
  }

 private:
  VariedStep& step_;
  std::map<std::pair<size_t, int64_t>, size_t> known_;
};

Pass copy_of(const Pass& pass, const Variation& variation) {
  const auto all = pass.waits.all();
  std::vector<Wait> waits(all.begin(), all.end());
  for (Wait& w : waits) w.delay = Time{varied_delay(w.delay, variation)};
  Pass copy;
  copy.name = pass.name;
  copy.tensors = pass.tensors;
  copy.second_tensors = pass.second_tensors;
  copy.ops = pass.ops;
  copy.waits = WaitGraph(static_cast<uint32_t>(pass.ops.size()), std::move(waits));
  copy.memory = pass.memory;
  return copy;
}

}  // namespace

int64_t varied_ps(int64_t ps, const Work& work, Phase phase, const Variation& v,
                  double pass_scale) {
  double f = 1;
  if (is_communication(work.kind)) f *= v.axis_scale[static_cast<size_t>(work.axis)];
  if (phase == Phase::optimizer) f *= v.optimizer_scale;
  if (phase == Phase::recompute) f *= v.recompute_scale;
  return scaled(ps, f * pass_scale);
}

std::vector<int64_t> varied_launches(const OpGraph& graph, const Prices& prices,
                                     const Variation& variation) {
  std::vector<int64_t> times(graph.launches.size());
  STEPCAST_CHECK(prices.by_launch.empty() || prices.by_launch.size() == times.size(),
                 "one time for each launch");
  for (size_t i = 0; i < prices.by_launch.size(); ++i)
    times[i] = scaled(prices.by_launch[i].count(), variation.launch_scale);
  return times;
}

int64_t varied_delay(Time delay, const Variation& variation) {
  return scaled(delay.count(), variation.launch_scale);
}

VariedStep vary(const OpGraph& graph, const Prices& prices, const Variation& variation) {
  STEPCAST_CHECK(prices.by_work.size() == graph.works.size(), "one price for each work");
  VariedStep step;
  OpGraph& out = step.graph;
  out.labels = graph.labels;
  out.works = graph.works;
  out.launches = graph.launches;
  out.tensor_tables = graph.tensor_tables;
  out.rendezvous = graph.rendezvous;
  out.roles = graph.roles;
  step.prices = prices;
  step.prices.by_launch.clear();
  for (const int64_t ps : varied_launches(graph, prices, variation))
    step.prices.by_launch.push_back(Time{ps});
  VariedWorks works(step);
  const auto varied = [&](WorkId work, Phase phase, double pass_scale) {
    const auto index = static_cast<size_t>(work);
    return works.with(work, varied_ps(prices.by_work[index].time.count(), graph.works[index], phase,
                                      variation, pass_scale));
  };
  for (size_t p = 0; p < graph.passes.size(); ++p) {
    Pass pass = copy_of(graph.passes[p], variation);
    const double scale = variation.pass_scale.empty() ? 1 : variation.pass_scale[p];
    for (Op& op : pass.ops) op.work = varied(op.work, op.phase, scale);
    out.passes.push_back(std::move(pass));
  }
  for (Rendezvous& r : out.rendezvous) r.work = varied(r.work, Phase::forward, 1);
  return step;
}

}  // namespace stepcast
