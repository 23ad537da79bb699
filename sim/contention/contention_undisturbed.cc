// SPDX-License-Identifier: Apache-2.0
// Stretches of a pass in which no other role interferes, learnt once and then only added.
//
// With interference every chain of compute and every collective is an event, because a transfer to
// the rank might begin at any time.  Mostly none does: of a pass of 20 layers with a hundred events
// one or two transfers overlap a few.  What a role does by itself meanwhile is the same in every
// microbatch, only later.
//
// A quiet point is the begin of a chain of compute at which nothing else runs on the rank: no
// communication, and all other streams wait for that chain or for what follows it.  Between two
// quiet points of a pass, if no transfer of another role comes and no launch is late, times follow
// from the time of the first by addition.  An example, with times in ms:
//
//     first microbatch    c0 begins at 10, a quiet point; the all-gather that waits for it takes 13
//                         to 15; c1, which waits for that, begins at 15, the next quiet point.
//                         Learnt: 5 later, slots and streams at +3 and +5, so much of each account
//     second microbatch   c0 begins at 50, at a quiet point in the same place.  If nobody can post
//                         to this role before 55, the role is put at c1, begun at 55, while the
//                         clock still stands at 50
//
// Who can post to a role, and when at the earliest?  A role that is in a pass posts after it, and
// what is left of the pass takes no less than its compute alone; a role that waits for a rendezvous
// posts after whoever is to post that one (earliest_post).
//
// Only where all lanes of a role are merged to one: others would have to stand at a quiet point,
// too.

#include <algorithm>
#include <utility>

#include "sim/contention/contention_engine.h"

namespace stepcast::contention {
namespace {

StragglerWait moved(const StragglerWait& wait, int64_t by) {
  return {wait.ready + by, wait.begin + by, wait.alone_end + by, wait.end + by};
}

}  // namespace

void Engine::prepare_quiet() {
  const auto posts_elsewhere = [](const Item& item) {
    return item.kind == ItemKind::post && item.stream != Stream::compute;
  };
  quiet_ =
      coupled_ && folded_ != nullptr && width_ == 1 && !is_uneven(0) && spans_.empty() && !ops_;
  for (const RoleOps& role : graph_.roles) {
    if (std::ranges::any_of(role.items, posts_elsewhere)) quiet_ = false;
  }
  if (!quiet_) return;
  quiet_roles_.resize(graph_.roles.size());
  for (uint32_t r = 0; r < quiet_roles_.size(); ++r) {
    QuietRole& role = quiet_roles_[r];
    role.passes.resize(graph_.passes.size());
    for (uint32_t i = blocks_[r].first_thread; i < blocks_[r].end_thread; ++i) {
      if (threads_[i].code == kCompute) role.thread = i;
    }
    find_peers(r);
  }
  for (const PassThreads& pass : program_.passes) {
    std::vector<int64_t>& rest = quiet_rest_.emplace_back(pass.code[kCompute].size() + 1);
    for (size_t pc = pass.code[kCompute].size(); pc-- > 0;) {
      const ThreadInstruction& in = pass.code[kCompute][pc];
      const bool waits = in.code == ThreadCode::wait || in.code == ThreadCode::watch;
      rest[pc] = rest[pc + 1] + (waits ? 0 : in.ps);
    }
  }
}

// The roles that may let something begin on role r while it is in a pass.
void Engine::find_peers(uint32_t r) {
  std::vector<uint32_t> open;  // posted by r, not joined yet
  std::vector<bool> posts(graph_.rendezvous.size()), stays_open(graph_.rendezvous.size());
  for (const Item& item : graph_.roles[r].items) {
    const auto id = static_cast<uint32_t>(item.rendezvous);
    if (item.kind == ItemKind::post) {
      posts[id] = true;
      open.push_back(id);
    } else if (item.kind == ItemKind::join) {
      std::erase(open, id);
    } else if (item.kind == ItemKind::pass) {
      for (const uint32_t i : open) stays_open[i] = true;
      open.clear();
    }
  }
  std::vector<uint32_t>& peers = quiet_roles_[r].peers;
  for (uint32_t id = 0; id < graph_.rendezvous.size(); ++id) {
    const RendezvousPlan& plan = program_.rendezvous[id];
    if (posts[id] && !stays_open[id]) continue;
    if (std::ranges::find(plan.parties, r) == plan.parties.end()) continue;
    for (const uint32_t p : plan.posts) {
      if (p != r && std::ranges::find(peers, p) == peers.end()) peers.push_back(p);
    }
  }
}

// Nobody posts to role `asker` before this, whatever happens, as long as it is in its pass.  A role
// that waits at a join posts after one of those that are to post there, and so forth; the asker is
// none of them, and where roles wait in a circle, another one lets them go.
int64_t Engine::earliest_post_to(uint32_t asker) {
  int64_t first = INT64_MAX;
  ++quiet_query_;
  quiet_roles_[asker].query = quiet_query_;
  quiet_stack_.clear();
  const auto ask = [&](uint32_t r) {
    if (std::exchange(quiet_roles_[r].query, quiet_query_) != quiet_query_)
      quiet_stack_.push_back(r);
  };
  for (const uint32_t r : quiet_roles_[asker].peers) ask(r);
  while (!quiet_stack_.empty() && first > now_) {
    const uint32_t r = quiet_stack_.back();
    quiet_stack_.pop_back();
    const std::optional<int64_t> own = earliest_post(r);
    if (own) {
      first = std::min(first, *own);
      continue;
    }
    const Thread& th = threads_[quiet_roles_[r].thread];
    const Item& join = graph_.roles[r].items[program_.roles[r].items[kCompute][th.at]];
    for (const uint32_t p : program_.rendezvous[static_cast<size_t>(join.rendezvous)].posts) ask(p);
  }
  return first;
}

// No post of role r comes before this; nothing if it waits for others to post.
std::optional<int64_t> Engine::earliest_post(uint32_t r) const {
  const uint32_t thread = quiet_roles_[r].thread;
  if (thread == kNone) return now_;
  const Thread& th = threads_[thread];
  const std::vector<uint32_t>& items = program_.roles[r].items[kCompute];
  if (th.at == items.size()) return INT64_MAX;
  const Item& item = graph_.roles[r].items[items[th.at]];
  if (item.kind == ItemKind::pass) {
    const Rank& rank = ranks_[r];
    const bool begun = rank.runs ? rank.first_op > 0 : th.ops > 0;
    const int64_t rest = quiet_rest_[static_cast<size_t>(item.pass)][th.pc + (begun ? 1 : 0)];
    return (rank.runs ? rank.begin : now_) + rest * std::min(slowness_[r], kNominal);
  }
  if (item.kind != ItemKind::join) return now_;
  const uint32_t at = rendezvous_occurrence_[static_cast<size_t>(item.rendezvous)];
  if (at == kNone || occurrences_[at].groups[0].arrived < occurrences_[at].needed) return {};
  const Occurrence& o = occurrences_[at];
  return std::max(now_, o.groups[0].begin + price_of(o, 0) * kNominal);
}

// -------------------------------------------------------------------------------------------------

// Where each other thread of the role stands in the pass; false if one is not waiting for what is
// to come.
bool Engine::parked_threads(const Place& at, uint32_t item, std::vector<uint32_t>& pcs) const {
  pcs.clear();
  for (uint32_t i = at.block.first_thread; i < at.block.end_thread; ++i) {
    const Thread& th = threads_[i];
    if (th.code == kCompute || th.code >= kStreams) continue;
    const std::vector<ThreadInstruction>& code = at.pass.code[th.code];
    const std::vector<uint32_t>& items = program_.roles[at.block.role].items[th.code];
    pcs.push_back(kNone);
    if (code.empty() || th.at == items.size() || items[th.at] != item) continue;
    const ThreadInstruction& in = code[th.pc];
    if (in.code != ThreadCode::watch || at.live.known[static_cast<size_t>(in.end_slot)] != 0)
      return false;
    pcs.back() = th.pc;
  }
  return true;
}

// The rank has begun a chain of compute at this moment.  If that is a quiet point: learns what led
// here from the last one, and goes on as far as is known and certain.
void Engine::go_on_quietly(uint32_t r) {
  Rank& rank = ranks_[r];
  QuietRole& role = quiet_roles_[r];
  if (rank.begin != now_ || !rank.fresh || !rank.transfers.empty() || role.pending > 0) return;
  Thread& th = threads_[rank.thread];
  Block& block = blocks_[r];
  const uint32_t item = program_.roles[r].items[kCompute][th.at];
  const auto pass_id = static_cast<size_t>(graph_.roles[r].items[item].pass);
  const PassThreads& pass = program_.passes[pass_id];
  if (rank.first_op != 0 || th.ops != pass.code[kCompute][th.pc].count) return;
  if (std::ranges::any_of(block.time, [&](int64_t t) { return t > now_; })) return;
  const uint32_t segment = program_.roles[r].segment[item];
  const Place at{block,
                 th,
                 pass,
                 enter(block, item, pass),
                 &block.host[segment * block_lanes_],
                 program_.roles[r].launched[item],
                 program_.roles[r].instances[item],
                 records(block, th)};
  if (!parked_threads(at, item, quiet_pcs_)) return;
  std::vector<QuietPoint>& points = role.passes[pass_id];
  if (points.empty()) points.resize(pass.code[kCompute].size());
  if (role.learns && role.item == item) learn(at, points[role.pc]);
  const uint32_t first = th.pc;
  if (points[th.pc].known && points[th.pc].pcs == quiet_pcs_) {
    const int64_t until = earliest_post_to(r);
    while (points[th.pc].known && follow(at, points[th.pc], until)) continue;
  }
  // Nothing is learnt twice.
  role.learns = !points[th.pc].known;
  if (role.learns) remember(at, item);
  if (th.pc != first) rank.restarted = true;
}

void Engine::note_launch(const Place& at, int64_t begin, int64_t launched) {
  if (!quiet_) return;
  QuietRole& role = quiet_roles_[at.block.role];
  if (at.host[0] + at.launched + launched >= begin) role.learns = false;
  role.slack = std::min(role.slack, begin - role.begin - launched);
}

// What there is at a quiet point, to tell what has changed at the next one.
void Engine::remember(const Place& at, uint32_t item) {
  QuietRole& role = quiet_roles_[at.block.role];
  role.item = item;
  role.pc = at.th.pc;
  role.begin = ranks_[at.block.role].begin;
  role.slack = INT64_MAX;
  role.pcs.clear();
  parked_threads(at, item, role.pcs);
  role.time = at.block.time;
  role.known = at.live.known;
  role.straggler =
      role_records_.empty() ? decltype(role.straggler){} : role_records_[at.block.role].straggler;
  if (recorded_ >= 0) role.booked = record_->booked(at.block.role);
  role.sequences.clear();
  for (uint32_t i = at.block.first_thread; i < at.block.end_thread; ++i) {
    role.sequences.push_back(threads_[i].sequence);
  }
}

// What has happened from the quiet point that is remembered to this one.
void Engine::learn(const Place& at, QuietPoint& point) {
  const QuietRole& role = quiet_roles_[at.block.role];
  const int64_t begin = role.begin;
  point.known = true;
  point.pcs = role.pcs;
  point.next = at.th.pc;
  point.next_pcs = quiet_pcs_;
  point.length = now_ - begin;
  point.slack = role.slack;
  for (uint32_t slot = 0; slot < at.live.known.size(); ++slot) {
    if (at.live.known[slot] == role.known[slot]) continue;
    point.slots.push_back(
        {slot, at.live.slots[slot] - begin,
         recorded_ >= 0 ? moved(at.live.straggler[slot], -begin) : StragglerWait{}});
  }
  for (uint32_t s = 0; s < kStreams; ++s) {
    if (at.block.time[s] != role.time[s]) point.time.emplace_back(s, at.block.time[s] - begin);
  }
  for (uint32_t i = at.block.first_thread; i < at.block.end_thread; ++i) {
    const uint32_t more = threads_[i].sequence - role.sequences[i - at.block.first_thread];
    if (more > 0) point.collectives.emplace_back(i - at.block.first_thread, more);
  }
  if (recorded_ < 0) return;
  const std::array<int64_t, kSpends>& booked = record_->booked(at.block.role);
  for (size_t s = 0; s < kSpends; ++s) {
    if (booked[s] != role.booked[s])
      point.booked.emplace_back(static_cast<Spend>(s), booked[s] - role.booked[s]);
  }
  for (uint32_t s = 0; s < kStreams; ++s) {
    const StragglerWait& wait = role_records_[at.block.role].straggler[s];
    if (wait.ready == role.straggler[s].ready && wait.end == role.straggler[s].end) continue;
    point.straggler.emplace_back(s, moved(wait, -begin));
  }
}

// To the next quiet point, unless that is later than `until` or a launch would be late.
bool Engine::follow(const Place& at, const QuietPoint& point, int64_t until) {
  Rank& rank = ranks_[at.block.role];
  const int64_t begin = rank.begin;
  if (begin + point.length > until) return false;
  if (point.slack != INT64_MAX && at.host[0] + at.launched - begin >= point.slack) return false;
  // Who waits for a slot is parked again where it waits next.
  size_t k = 0;
  for (uint32_t i = at.block.first_thread; i < at.block.end_thread; ++i) {
    Thread& th = threads_[i];
    if (th.code == kCompute || th.code >= kStreams) continue;
    const uint32_t pc = point.pcs[k++];
    if (pc == kNone) continue;
    at.live.waiters[static_cast<size_t>(at.pass.code[th.code][pc].end_slot)] = kNone;
  }
  k = 0;
  for (uint32_t i = at.block.first_thread; i < at.block.end_thread; ++i) {
    Thread& th = threads_[i];
    if (th.code == kCompute || th.code >= kStreams) continue;
    const uint32_t pc = point.next_pcs[k++];
    if (pc == kNone) continue;
    th.pc = pc;
    sleep(th, at.live.waiters[static_cast<size_t>(at.pass.code[th.code][pc].end_slot)]);
  }
  for (const QuietPoint::Slot& slot : point.slots) {
    at.live.known[slot.slot] = 1;
    at.live.slots[slot.slot] = begin + slot.time;
    if (recorded_ >= 0) at.live.straggler[slot.slot] = moved(slot.straggler, begin);
  }
  for (const auto& [stream, time] : point.time) at.block.time[stream] = begin + time;
  for (const auto& [thread, more] : point.collectives) {
    Thread& th = threads_[at.block.first_thread + thread];
    th.sequence += more;
    sequences_[at.block.role * kStreams + th.code].first += more;
    shared_ops_ += more * stands_for_[0];
  }
  if (recorded_ >= 0) {
    for (const auto& [spend, time] : point.booked) record_->book(at.block.role, spend, time);
    for (const auto& [stream, wait] : point.straggler)
      role_records_[at.block.role].straggler[stream] = moved(wait, begin);
  }
  const ThreadInstruction& chain = at.pass.code[kCompute][point.next];
  at.th.pc = point.next;
  at.th.ops = chain.count;
  rank.begin = rank.last = begin + point.length;
  rank.target = rank.progress + Wide{chain.ps} * slowness_[at.block.role] * slow_compute_;
  return true;
}

}  // namespace stepcast::contention
