// SPDX-License-Identifier: Apache-2.0
// The account of a step, and its critical path.
//
// The example of run.cc: two pipeline ranks and one microbatch; F takes 10, B 20, the transfers x
// and y take 3.
//
//     role 0   F 0..10, waits for y 10..46, B 46..66
//     role 1   waits for x 0..13, F 13..23, B 23..43
//     links    x 10..13, y 43..46
//
// Passes and what was booked inside of them are known from the engine; the work here is to explain
// the gaps.  Role 0 stood still from 10 to 46 at the join of y.
//
//     43..46   y was running: exposed pipeline communication
//     10..43   y had not begun, because role 1 posted it last.  What did role 1 do meanwhile?
//              10..13   it waited for x itself, which was running: exposed pipeline communication
//              13..43   it computed.  Role 0 had not begun its first backward: pipeline fill
//
// So role 0 spent 10 + 20 on its passes, 6 on transfers and 30 on fill, which is the 66 of the
// step.  Had role 1 waited for a rendezvous that had not begun either, the walk would have gone on
// to the role that posted that one last, and so on along the chain (walk, walk_join).  Each stretch
// of time is booked exactly once, and the sum is checked.
//
// The critical path reads the same record backwards.  Role 0 ends at 66; the gap before its B ended
// at 46 with y, which role 1 began at 43; the last gap of role 1 ended at 13 with x, which role 0
// began at 10: F of role 0, x, F and B of role 1, y, B of role 0.

#include "sim/account/account.h"

#include <algorithm>

#include "sim/check.h"

namespace stepcast {
namespace {

class Accountant {
 public:
  Accountant(const Program& program, const Timeline& timeline)
      : program_(program), graph_(*program.graph), timeline_(timeline) {}

  SpendTable account_of(uint32_t r) {
    SpendTable table{};
    find_events(r);
    for (const Item& item : graph_.roles[r].items) {
      if (item.kind != ItemKind::pass) continue;
      const auto& busy = program_.passes[static_cast<size_t>(item.pass)].busy;
      for (size_t s = 0; s < busy.size(); ++s) table[s] += Time{busy[s]};
    }
    const SpendTable& inside = timeline_.roles[r].inside;
    for (size_t s = 0; s < inside.size(); ++s) table[s] += inside[s];
    for (const Gap& gap : timeline_.roles[r].gaps) book(table, r, gap);
    at(table, Spend::idle_end) += timeline_.makespan - timeline_.roles[r].compute_end;
    check_sum(table);
    return table;
  }

 private:
  static Time& at(SpendTable& table, Spend s) { return table[static_cast<size_t>(s)]; }

  void check_sum(const SpendTable& table) const {
    Time sum{};
    for (Time t : table) sum += t;
    STEPCAST_CHECK(sum == timeline_.makespan, "the account of a role does not sum to the step");
  }

  void book(SpendTable& table, uint32_t r, const Gap& gap) {
    switch (gap.cause) {
      case Gap::Cause::event: at(table, spend_of_event(gap.id)) += gap.end - gap.begin; return;
      case Gap::Cause::straggler: at(table, Spend::straggler) += gap.end - gap.begin; return;
      case Gap::Cause::contention: at(table, Spend::contention) += gap.end - gap.begin; return;
      case Gap::Cause::rendezvous: book_rendezvous(table, r, gap); return;
    }
  }

  static Spend spend_of_stream(Stream stream) {
    switch (stream) {
      case Stream::tp: return Spend::exposed_tp;
      case Stream::cp: return Spend::exposed_cp;
      case Stream::ep: return Spend::exposed_ep;
      case Stream::dp: return Spend::exposed_dp;
      default: return Spend::exposed_other;
    }
  }

  // An event is named by the stream whose end it records.  A step has about as many events as
  // items, so they are looked up in a table.
  void find_events(uint32_t r) {
    event_spend_.clear();
    if (timeline_.roles[r].gaps.empty()) return;
    std::vector<bool> known;
    for (const Item& item : graph_.roles[r].items) {
      if (item.kind != ItemKind::record) continue;
      if (item.event >= known.size()) {
        known.resize(item.event + 1);
        event_spend_.resize(item.event + 1, Spend::exposed_other);
      }
      if (known[item.event]) continue;
      known[item.event] = true;
      event_spend_[item.event] = spend_of_stream(item.stream);
    }
  }

  Spend spend_of_event(uint32_t event) const {
    return event < event_spend_.size() ? event_spend_[event] : Spend::exposed_other;
  }

  Spend spend_of_rendezvous(uint32_t id) const {
    const Work& work = graph_.works[static_cast<size_t>(graph_.rendezvous[id].work)];
    return work.kind == WorkKind::send_recv ? Spend::exposed_pp : spend_of(work, Phase::forward);
  }

  // What role r's post at `item` waited for: the host; the rendezvous that its stream joined just
  // before, in a chain of them; else what its stream carries.
  Spend spend_before_post(uint32_t r, size_t item) const {
    const std::vector<Item>& items = graph_.roles[r].items;
    const Stream stream = items[item].stream;
    if (stream == Stream::compute) return Spend::launch;
    while (item-- > 0) {
      const Item& before = items[item];
      if (before.kind == ItemKind::join && before.stream == stream)
        return spend_of_rendezvous(static_cast<uint32_t>(before.rendezvous));
      if (before.kind != ItemKind::record && before.kind != ItemKind::wait) break;
    }
    return spend_of_stream(stream);
  }

  // Pipeline fill, drain, or what unequal stages cost in between, by where the waiting role is in
  // its schedule.
  Spend bubble_of(uint32_t r, const Gap& gap) const {
    const RoleTimeline& t = timeline_.roles[r];
    if (gap.end <= t.first_backward) return Spend::fill;
    return gap.begin >= t.last_forward ? Spend::drain : Spend::imbalance;
  }

  void book_rendezvous(SpendTable& table, uint32_t r, const Gap& gap) {
    const RendezvousTime& rendezvous = timeline_.rendezvous[gap.id];
    const Time wire = std::max(gap.begin, rendezvous.begin);
    book_wire(table, gap.id, wire, gap.end);
    if (wire == gap.begin) return;
    if (rendezvous.last_role == r) {
      // Its own post was late: the stream that made it was busy, or the host had not launched it.
      at(table, spend_before_post(r, rendezvous.last_item)) += wire - gap.begin;
      return;
    }
    const Waiter waiter{&table, bubble_of(r, gap)};
    walk(waiter, rendezvous.last_role, gap.begin, wire, gap.only_sends, 0);
  }

  // [begin, end), in which rendezvous `id` was running.
  void book_wire(SpendTable& table, uint32_t id, Time begin, Time end) const {
    const RendezvousTime& rendezvous = timeline_.rendezvous[id];
    const Time late = std::clamp(rendezvous.end - rendezvous.contended, begin, end);
    at(table, spend_of_rendezvous(id)) += late - begin;
    at(table, Spend::contention) += end - late;
  }

  struct Waiter {
    SpendTable* table;
    Spend bubble;
  };

  static Spend bubble_of(const Waiter& waiter, bool coupled) {
    return coupled ? Spend::blocked : waiter.bubble;
  }

  // Books [begin, end), in which another role waited for role r, by what r did in that time.
  void walk(const Waiter& waiter, uint32_t r, Time begin, Time end, bool coupled, int depth) {
    const RoleTimeline& role = timeline_.roles[r];
    auto it = std::upper_bound(role.items.begin(), role.items.end(), begin,
                               [](Time t, const ItemTime& i) { return t < i.end; });
    for (; it != role.items.end() && begin < end; ++it) {
      const Time until = std::min(end, it->end);
      if (until <= begin) continue;
      const auto index = static_cast<size_t>(it - role.items.begin());
      const Item& item = graph_.roles[r].items[index];
      if (item.kind == ItemKind::join && item.stream == Stream::compute && depth < kMaxDepth) {
        walk_join(waiter, r, item, begin, until, coupled, depth);
      } else {
        at(*waiter.table, bubble_of(waiter, coupled)) += until - begin;
      }
      begin = until;
    }
    // Its host was late to post.
    if (begin < end) at(*waiter.table, bubble_of(waiter, coupled)) += end - begin;
  }

  // Role r itself stood at a join in [begin, end).
  void walk_join(const Waiter& waiter, uint32_t r, const Item& item, Time begin, Time end,
                 bool coupled, int depth) {
    const auto id = static_cast<uint32_t>(item.rendezvous);
    const RendezvousTime& rendezvous = timeline_.rendezvous[id];
    const Time wire = std::clamp(rendezvous.begin, begin, end);
    book_wire(*waiter.table, id, wire, end);
    if (wire == begin) return;
    const bool now_coupled = coupled || item.only_sends;
    if (rendezvous.last_role == r) {
      at(*waiter.table, bubble_of(waiter, now_coupled)) += wire - begin;
    } else {
      walk(waiter, rendezvous.last_role, begin, wire, now_coupled, depth + 1);
    }
  }

  // A chain passes each role at most a few times; beyond this the rest is booked where the walk
  // stands.
  static constexpr int kMaxDepth = 1024;

  const Program& program_;
  const OpGraph& graph_;
  const Timeline& timeline_;
  std::vector<Spend> event_spend_;  // of the role that is accounted for, by event
};

Time not_working(const SpendTable& table) {
  return sum_if(table, [](Spend s) { return is_bubble(s) || s == Spend::idle_end; });
}

}  // namespace

Account make_account(const Program& program, const Timeline& timeline) {
  Account account;
  Accountant accountant(program, timeline);
  for (uint32_t r = 0; r < timeline.roles.size(); ++r) {
    account.by_role.push_back(accountant.account_of(r));
    if (not_working(account.by_role[r]) < not_working(account.by_role[account.critical_role])) {
      account.critical_role = r;
    }
  }
  return account;
}

void separate_imbalance(Account& account, const Account& levelled) {
  const auto waiting = [](const SpendTable& of) {
    return of[static_cast<size_t>(Spend::fill)] + of[static_cast<size_t>(Spend::imbalance)] +
           of[static_cast<size_t>(Spend::drain)];
  };
  for (size_t r = 0; r < account.by_role.size(); ++r) {
    SpendTable& table = account.by_role[r];
    const Time all = waiting(table);
    const Time imbalance = std::max(Time{0}, all - waiting(levelled.by_role[r]));
    Time& drain = table[static_cast<size_t>(Spend::drain)];
    drain = std::min(drain, all - imbalance);
    table[static_cast<size_t>(Spend::imbalance)] = imbalance;
    table[static_cast<size_t>(Spend::fill)] = all - imbalance - drain;
  }
}

// -------------------------------------------------------------------------------------------------
// The longest chain of a step, found backwards: a role's compute stream is followed until the
// stand-still that a rendezvous ended; from there the chain goes on with the role whose post came
// last, at the time of that post.

namespace {

// The last stand-still at a join of role r, before its item `item`, that ended no later than `t`.
// The bound on items keeps the walk going back in the order of causes where nothing takes time.
const Gap* last_join_gap(const RoleTimeline& role, uint32_t item, Time t) {
  // Gaps are in the order of items as well as of time.
  auto it = std::partition_point(role.gaps.begin(), role.gaps.end(),
                                 [&](const Gap& g) { return g.end <= t && g.item < item; });
  while (it != role.gaps.begin()) {
    --it;
    if (it->cause == Gap::Cause::rendezvous) return &*it;
  }
  return nullptr;
}

uint32_t last_to_end(const Timeline& timeline) {
  uint32_t last = 0;
  for (uint32_t r = 0; r < timeline.roles.size(); ++r) {
    if (timeline.roles[r].end > timeline.roles[last].end) last = r;
  }
  return last;
}

}  // namespace

std::vector<PathSegment> critical_path(const Program&, const Timeline& timeline) {
  std::vector<PathSegment> path;
  if (timeline.roles.empty()) return path;
  uint32_t r = last_to_end(timeline);
  uint32_t item = UINT32_MAX;
  Time t = timeline.makespan;
  while (t > Time{0}) {
    const Gap* gap = last_join_gap(timeline.roles[r], item, t);
    const Time from = gap == nullptr ? Time{0} : gap->end;
    if (t > from) path.push_back({PathSegment::Kind::role, r, RendezvousId{}, from, t});
    if (gap == nullptr) break;
    const RendezvousTime& rendezvous = timeline.rendezvous[gap->id];
    if (rendezvous.end > rendezvous.begin) {
      path.push_back({PathSegment::Kind::rendezvous, r, RendezvousId{gap->id}, rendezvous.begin,
                      rendezvous.end});
    }
    r = rendezvous.last_role;
    item = rendezvous.last_item;
    t = rendezvous.begin;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace stepcast
