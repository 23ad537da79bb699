// SPDX-License-Identifier: Apache-2.0
// Which passes are undisturbed is read off the program.
//
// A pass by itself (meeting_of): up to the first op that is not compute nothing communicates; that
// op is a collective of the tp group that waits for the last compute before it; the next compute
// waits for its end (or the ranks come at one time), and the first op of every other stream waits
// for an op from it on.  So at its begin nothing runs on any rank of the group, and nothing has
// begun that follows it.
//
// A role (mark): everything that it takes part in is begun by a post of its own, on the compute
// stream, and has been joined there before the next pass; what a pass has put on another stream has
// been waited for by compute before the next; and what it puts there without waiting for compute
// of its own cannot have begun before it, because that stream has waited for compute since the pass
// before.  Passes for which one of these does not hold, and those that it may reach, are run event
// by event.

#include "sim/contention/undisturbed_passes.h"

#include <algorithm>
#include <utility>

#include "sim/graph/program.h"
#include "sim/lanes/lane_program.h"

namespace stepcast::contention {
namespace {

constexpr auto kComputeStream = static_cast<size_t>(Stream::compute);
constexpr uint32_t kNowhere = UINT32_MAX;

// What a role may have on besides the pass that it runs, item by item.
struct OnBesides {
  std::vector<uint32_t> posted;  // rendezvous, not joined
  // By stream: the last item that its next op comes after for certain, in the order of compute ...
  std::array<uint32_t, kStreams> after{};
  // ... and the latest pass whose ops there compute has not waited for.
  std::array<uint32_t, kStreams> loose{};
  // By event: of which stream, and where.
  std::vector<std::pair<Stream, uint32_t>> events;

  OnBesides() { loose.fill(kNowhere); }
};

}  // namespace

UndisturbedPasses::UndisturbedPasses(const OpGraph& graph, const Prices& prices,
                                     std::vector<Scope> scopes, int64_t slow_compute,
                                     int64_t slow_communication, bool merge)
    : graph_(graph),
      prices_(prices),
      scopes_(std::move(scopes)),
      slow_compute_(slow_compute),
      slow_communication_(slow_communication),
      merge_(merge),
      launches_(varied_launches(graph, prices, {})),
      rests_(graph.passes.size()) {
  for (int64_t& time : launches_) time <<= kLaneFractionBits;
  for (const Pass& pass : graph.passes) meetings_.push_back(meeting_of(pass));
  for (uint32_t r = 0; r < graph.roles.size(); ++r) mark(r);
}

PassMeeting UndisturbedPasses::meeting_of(const Pass& pass) const {
  PassMeeting out;
  const auto count = static_cast<uint32_t>(pass.ops.size());
  const auto communicates = [&](const Op& op) {
    return is_communication(graph_.works[static_cast<size_t>(op.work)].kind);
  };
  uint32_t& k = out.op;
  for (; k < count && pass.ops[k].stream == Stream::compute; ++k) {
    if (communicates(pass.ops[k])) return out;
    for (const Wait& w : pass.waits.of(k))
      if (!is_implied(pass, w)) return out;
    out.launched += launches_[static_cast<size_t>(pass.ops[k].launch)];
  }
  if (k == count) {
    out.apart = true;
    return out;
  }
  out.launch = launches_[static_cast<size_t>(pass.ops[k].launch)];
  const Op& first = pass.ops[k];
  out.stream = static_cast<size_t>(first.stream);
  if (!communicates(first)) return out;
  const Scope scope = scopes_[static_cast<size_t>(first.work)];
  const auto waits_for = [&](uint32_t op, uint32_t on) {
    return std::ranges::any_of(pass.waits.of(op),
                               [&](const Wait& w) { return w.on == on && !w.from_start; });
  };
  if (k > 0 && !waits_for(k, k - 1)) return out;
  for (uint32_t i = k; i < count; ++i) {
    const Op& op = pass.ops[i];
    const auto stream = static_cast<size_t>(op.stream);
    // All ranks of the group meet at first, or each is by itself.
    if (communicates(op) && scopes_[static_cast<size_t>(op.work)] > scope) return out;
    if (communicates(op) && scopes_[static_cast<size_t>(op.work)] == Scope::outside) return out;
    // What the ops before the meeting have given is there at its begin.
    for (const Wait& w : pass.waits.of(i))
      if (w.on < k && w.delay.count() != 0) return out;
    const bool first_of_stream = !std::exchange(out.uses[stream], true);
    if (!first_of_stream || op.stream == first.stream) continue;
    out.on_two_streams = out.on_two_streams && op.stream == Stream::compute;
    const bool follows =
        std::ranges::any_of(pass.waits.of(i), [&](const Wait& w) { return w.on >= k; });
    if (op.stream == Stream::compute) {
      out.compute_waits = waits_for(i, k);
      if (!out.compute_waits && k == 0) return out;
    } else if (!follows) {
      return out;
    }
  }
  out.apart = true;
  if (out.compute_waits && out.on_two_streams) out.aligned = aligned_ops(pass, k);
  return out;
}

// From the meeting on: each collective is of its ranks and waits for the compute before it, and the
// compute after it for that.  Where compute does not wait, it starts as soon as its own rank is
// ready, and where none follows, what comes after the pass may: so a collective counts once the
// next compute is seen to wait for it.  REQUIRES: nothing but compute and the stream of the meeting
// is used from there on.
uint32_t UndisturbedPasses::aligned_ops(const Pass& pass, uint32_t meeting) const {
  const auto waits_for = [&](uint32_t op, uint32_t on) {
    return std::ranges::any_of(pass.waits.of(op),
                               [&](const Wait& w) { return w.on == on && !w.from_start; });
  };
  const auto scope_of = [&](uint32_t op) {
    return scopes_[static_cast<size_t>(pass.ops[op].work)];
  };
  // A delay may last beyond a collective at which the ranks meet.
  if (std::ranges::any_of(pass.waits.all(),
                          [&](const Wait& w) { return w.on > meeting && w.delay.count() != 0; }))
    return meeting;
  uint32_t last = meeting;  // collective
  uint32_t aligned = meeting;
  for (uint32_t i = meeting + 1; i < pass.ops.size(); ++i) {
    const bool communicates =
        is_communication(graph_.works[static_cast<size_t>(pass.ops[i].work)].kind);
    const bool follows_compute = i > last + 1;
    if (pass.ops[i].stream == Stream::compute) {
      if (communicates || (!follows_compute && !waits_for(i, last))) return aligned;
      aligned = last + 1;
    } else {
      if (!communicates || scope_of(i) != scope_of(meeting)) return aligned;
      if (follows_compute && !waits_for(i, i - 1)) return aligned;
      last = i;
    }
  }
  return aligned;
}

// Does compute of the pass not wait for its last op on the stream?
bool UndisturbedPasses::is_loose(const Pass& pass, size_t stream) const {
  auto last = static_cast<uint32_t>(pass.ops.size());
  while (last > 0 && static_cast<size_t>(pass.ops[last - 1].stream) != stream) --last;
  return last > 0 && std::ranges::none_of(pass.waits.all(), [&](const Wait& w) {
           return w.on == last - 1 && !w.from_start && pass.ops[w.op].stream == Stream::compute;
         });
}

void UndisturbedPasses::mark(uint32_t r) {
  const std::vector<Item>& items = graph_.roles[r].items;
  std::vector<bool>& undisturbed = undisturbed_.emplace_back(items.size(), false);
  const auto disturb = [&](uint32_t from, uint32_t to) {
    std::fill(undisturbed.begin() + from, undisturbed.begin() + to, false);
  };
  OnBesides on;
  for (uint32_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    const auto id = static_cast<uint32_t>(item.rendezvous);
    const auto stream = static_cast<size_t>(item.stream);
    switch (item.kind) {
      case ItemKind::pass: {
        const Pass& pass = graph_.passes[static_cast<size_t>(item.pass)];
        undisturbed[i] = on.posted.empty() && meeting(item.pass).apart;
        for (size_t s = 0; s < kStreams; ++s) {
          // What a pass has left on the stream may run on in this one.
          if (on.loose[s] != kNowhere) undisturbed[on.loose[s]] = undisturbed[i] = false;
          if (s == kComputeStream) continue;
          const auto first = std::ranges::find(
              pass.ops, s, [](const Op& op) { return static_cast<size_t>(op.stream); });
          if (first == pass.ops.end()) continue;
          const std::span<const Wait> waits =
              pass.waits.of(static_cast<uint32_t>(first - pass.ops.begin()));
          const bool follows = std::ranges::any_of(
              waits, [&](const Wait& w) { return pass.ops[w.on].stream == Stream::compute; });
          if (follows) on.after[s] = i;
          disturb(on.after[s], i);
          on.loose[s] = is_loose(pass, s) ? i : kNowhere;
        }
        break;
      }
      case ItemKind::post:
        if (item.stream != Stream::compute) return undisturbed.assign(items.size(), false);
        on.posted.push_back(id);
        break;
      case ItemKind::join:
        // Who joins without a post has no say in when it begins.
        if (item.stream != Stream::compute || std::erase(on.posted, id) == 0)
          return undisturbed.assign(items.size(), false);
        break;
      case ItemKind::record:
        if (on.events.size() <= item.event)
          on.events.resize(size_t{item.event} + 1, {Stream::compute, kNowhere});
        on.events[item.event] = {item.stream, i};
        break;
      case ItemKind::wait: {
        if (item.event >= on.events.size() || on.events[item.event].second == kNowhere) break;
        const auto [of, at] = on.events[item.event];
        uint32_t& loose = on.loose[static_cast<size_t>(of)];
        if (of == Stream::compute) on.after[stream] = std::max(on.after[stream], at);
        if (item.stream == Stream::compute && loose != kNowhere && loose < at) loose = kNowhere;
        break;
      }
      case ItemKind::sync: break;
    }
  }
}

// Hosts that come late.  Where all come at one time all ranks do alike all the same.  Else suppose
// that launches matter before one of the aligned collectives alone, for the rank whose host comes
// last.  Up to there compute is beside nothing, so all that happens are sums and maxima: no rank
// comes to a collective later than that one.  When that one begins, all have done the compute
// before it and none of the compute after it, so all stand alike from there on.  There no launch
// matters for it, nor for those whose hosts come earlier.
const LonePassEnd* UndisturbedPasses::after_meeting(PassId id, int64_t first_host, int64_t host,
                                                    int64_t over) {
  constexpr int kMostTries = 32;
  constexpr size_t kMostWays = 16;
  std::deque<Rest>& rests = rests_[static_cast<size_t>(id)];
  auto known = std::ranges::find(rests, over, &Rest::over);
  if (known == rests.end()) {
    if (rests.size() == kMostWays) return nullptr;
    known = rests.insert(known, Rest{.over = over, .end = {}, .late = {}});
  }
  Rest& rest = *known;
  if (host <= rest.enough) return &*rest.end;
  const auto late = std::ranges::find(rest.late, host, &std::pair<int64_t, LonePassEnd>::first);
  if (late != rest.late.end())
    return first_host == host || late->second.host_forgotten ? &late->second : nullptr;
  if (rest.tries == kMostTries) return nullptr;
  // The latest host first: that the meeting begins as soon as it is launched.
  const PassMeeting& at = meeting(id);
  const int64_t tried = rest.tries++ == 0 ? -at.launched - at.launch : host;
  prepare_rest(id);
  const LonePassEnd end =
      run_lone_pass(alone_, prices_, {.host = tried + at.launched, .over = over}, slow_compute_,
                    slow_communication_, merge_, at.aligned > at.op ? at.aligned - at.op : 0);
  if (end.launch_mattered) {
    rest.late.emplace_back(tried, end);
  } else {
    rest.enough = tried;
    if (!rest.end) rest.end = end;
  }
  return after_meeting(id, first_host, host, over);
}

// A graph of one role that runs the pass from its meeting on, and nothing else.
void UndisturbedPasses::prepare_rest(PassId id) {
  const Pass& pass = graph_.passes[static_cast<size_t>(id)];
  const uint32_t first = meeting(id).op;
  if (alone_.roles.empty()) {
    alone_.works = graph_.works;
    alone_.launches = graph_.launches;
    alone_.passes.resize(1);
    alone_.roles.resize(1);
    alone_.roles.front().items.resize(1);
  }
  std::vector<Wait> waits;
  for (Wait w : pass.waits.all()) {
    if (w.op < first || w.on < first) continue;
    w.op -= first;
    w.on -= first;
    waits.push_back(w);
  }
  Pass& rest = alone_.passes.front();
  rest.ops.assign(pass.ops.begin() + first, pass.ops.end());
  rest.waits = WaitGraph(static_cast<uint32_t>(rest.ops.size()), std::move(waits));
}

}  // namespace stepcast::contention
