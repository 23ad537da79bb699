// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/flows.h"

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <optional>

#include "tests/oracle/random_graph.h"

namespace stepcast::oracle {
namespace {

namespace mp = boost::multiprecision;
// Throws if a number does not fit.
using Whole = mp::number<mp::cpp_int_backend<1024, 1024, mp::signed_magnitude, mp::checked, void>>;
using Fraction = mp::number<mp::rational_adaptor<Whole::backend_type>>;

bool on_link(const FairFlow& flow, uint32_t link) {
  return std::any_of(flow.uses.begin(), flow.uses.end(),
                     [&](const LinkUse& u) { return u.link == link; });
}

// Level of all moving flows at which the link is full; nothing if none of them uses it.
std::optional<Fraction> full_at(uint32_t link, int64_t capacity, const std::vector<FairFlow>& flows,
                                const std::vector<std::optional<Fraction>>& rate) {
  Fraction room = capacity;
  Whole load = 0;
  for (size_t f = 0; f < flows.size(); ++f) {
    for (const LinkUse& use : flows[f].uses) {
      if (use.link != link) continue;
      if (rate[f].has_value())
        room -= *rate[f] * Fraction(use.load, kFullLoad);
      else
        load += use.load;
    }
  }
  if (load == 0) return std::nullopt;
  return Fraction(room * kFullLoad / load);
}

}  // namespace

std::vector<int64_t> fair_rates(const std::vector<int64_t>& capacity,
                                const std::vector<FairFlow>& flows) {
  std::vector<std::optional<Fraction>> rate(flows.size());
  size_t moving = flows.size();
  while (moving > 0) {
    std::vector<std::optional<Fraction>> full(capacity.size());
    std::optional<Fraction> level;
    const auto rises_to = [&](const Fraction& f) { level = level ? std::min(*level, f) : f; };
    for (uint32_t l = 0; l < capacity.size(); ++l) {
      full[l] = full_at(l, capacity[l], flows, rate);
      if (full[l]) rises_to(*full[l]);
    }
    for (size_t f = 0; f < flows.size(); ++f)
      if (!rate[f]) rises_to(flows[f].cap);
    for (size_t f = 0; f < flows.size(); ++f) {
      if (rate[f]) continue;
      bool stays = *level == flows[f].cap;
      for (uint32_t l = 0; l < capacity.size(); ++l)
        if (full[l] && *full[l] == *level && on_link(flows[f], l)) stays = true;
      if (!stays) continue;
      rate[f] = level;
      --moving;
    }
  }
  std::vector<int64_t> whole;
  for (const std::optional<Fraction>& r : rate) {
    const Whole down = mp::numerator(*r) / mp::denominator(*r);
    whole.push_back(std::max<int64_t>(1, static_cast<int64_t>(down)));
  }
  return whole;
}

namespace {

constexpr __int128 kParts = 1'000'000'000'000;  // of a byte

enum class Phase : uint8_t { waits, runs, ended };

struct Running {
  Phase phase = Phase::waits;
  __int128 left = 0;  // 10^-12 bytes
  int64_t cap = 0;
  int64_t rate = 0;
  int64_t end = 0;
};

bool may_start(const TimedFlow& flow, const std::vector<Running>& now, int64_t time) {
  return flow.earliest <= time &&
         std::all_of(flow.after.begin(), flow.after.end(),
                     [&](uint32_t a) { return now[a].phase == Phase::ended; });
}

void end_and_start(const std::vector<TimedFlow>& flows, int64_t time, std::vector<Running>& now) {
  for (Running& r : now) {
    if (r.phase != Phase::runs || r.left > 0) continue;
    r.phase = Phase::ended;
    r.end = time;
  }
  for (size_t f = 0; f < flows.size(); ++f) {
    if (now[f].phase == Phase::waits && may_start(flows[f], now, time))
      now[f] = {Phase::runs, flows[f].bytes * kParts, flows[f].cap, 0, 0};
    for (const CapChange& change : flows[f].changes)
      if (now[f].phase == Phase::runs && change.time == time) now[f].cap = change.cap;
  }
}

void set_rates(const std::vector<int64_t>& capacity, const std::vector<TimedFlow>& flows,
               std::vector<Running>& now) {
  std::vector<FairFlow> running;
  for (size_t f = 0; f < flows.size(); ++f)
    if (now[f].phase == Phase::runs) running.push_back({now[f].cap, flows[f].uses});
  const std::vector<int64_t> rates = fair_rates(capacity, running);
  size_t next = 0;
  for (Running& r : now)
    if (r.phase == Phase::runs) r.rate = rates[next++];
}

// The next moment after `time` at which anything happens; nothing if all have ended.
std::optional<int64_t> next_moment(const std::vector<TimedFlow>& flows,
                                   const std::vector<Running>& now, int64_t time) {
  std::optional<int64_t> next;
  const auto at = [&](int64_t t) {
    if (t > time) next = next ? std::min(*next, t) : t;
  };
  for (size_t f = 0; f < flows.size(); ++f) {
    if (now[f].phase == Phase::waits) at(flows[f].earliest);
    if (now[f].phase != Phase::runs) continue;
    at(time + static_cast<int64_t>((now[f].left + now[f].rate - 1) / now[f].rate));
    for (const CapChange& change : flows[f].changes) at(change.time);
  }
  return next;
}

}  // namespace

std::vector<int64_t> flow_ends(const std::vector<int64_t>& capacity,
                               const std::vector<TimedFlow>& flows) {
  std::vector<Running> now(flows.size());
  int64_t time = 0;
  while (true) {
    end_and_start(flows, time, now);
    set_rates(capacity, flows, now);
    const std::optional<int64_t> next = next_moment(flows, now, time);
    if (!next) break;
    for (Running& r : now)
      if (r.phase == Phase::runs) r.left -= static_cast<__int128>(r.rate) * (*next - time);
    time = *next;
  }
  std::vector<int64_t> ends;
  for (const Running& r : now) ends.push_back(r.end);
  return ends;
}

namespace {

constexpr int64_t kCapacities[] = {
    1, 2, 3, 7, 25'000'000'000, 50'000'000'000, 50'000'000'001, 400'000'000'000};
constexpr uint32_t kLoads[] = {kFullLoad,     kFullLoad,         kFullLoad / 2,
                               2 * kFullLoad, kFullLoad * 7 / 4, kFullLoad * 2 / 3};
constexpr int64_t kBytes[] = {1, 3, 1'000, 4'000'000, 1'000'000'000'000'000};

std::vector<LinkUse> random_uses(Draws& draws, uint32_t links) {
  std::vector<LinkUse> uses;
  const uint32_t most = draws.between(0, 4);
  for (uint32_t l = 0; l < links; ++l)
    if (draws.below(links) < most) uses.push_back({l, kLoads[draws.below(std::size(kLoads))]});
  if (!uses.empty() && draws.chance(5)) uses.push_back(uses.front());  // twice on one link
  return uses;
}

// A capacity of a handful, or (wild) one of ten digits.
int64_t random_capacity(Draws& draws, uint32_t scale, bool wild) {
  if (wild) return draws.between(1'000'000, 4'000'000'000);
  return kCapacities[scale + draws.below(4)];
}

}  // namespace

FlowCase random_flows(uint64_t seed) {
  Draws draws(seed);
  FlowCase out;
  const uint32_t links = draws.between(1, 12);
  const uint32_t scale = draws.chance(10) ? 0 : 4;
  const bool wild = draws.chance(30);
  const int64_t unit = scale == 0 ? 100'000'000'000 : wild ? 1'000'000'000 : 1'000'000;  // ps
  for (uint32_t l = 0; l < links; ++l) out.capacity.push_back(random_capacity(draws, scale, wild));
  const uint32_t flows = draws.between(1, 20);
  for (uint32_t f = 0; f < flows; ++f) {
    TimedFlow flow;
    flow.earliest = draws.chance(40) ? 0 : draws.below(20) * unit;
    if (f > 0 && draws.chance(40)) flow.after.push_back(draws.below(f));
    flow.uses = random_uses(draws, links);
    flow.bytes = scale == 0 ? draws.between(1, 9) : kBytes[draws.below(wild ? 4 : 5)];
    flow.cap = random_capacity(draws, scale, wild);
    for (int64_t at = 0; draws.chance(25);) {
      at += draws.between(1, 10) * unit;
      flow.changes.push_back({at, random_capacity(draws, scale, wild)});
    }
    out.flows.push_back(std::move(flow));
  }
  return out;
}

}  // namespace stepcast::oracle
