// SPDX-License-Identifier: Apache-2.0
#include "sim/graph/steady_state.h"

#include <algorithm>
#include <span>
#include <utility>

#include "sim/memory/repetition.h"

namespace stepcast {
namespace {

// So many microbatches later the role with the longest repetition does the same again.
std::optional<int64_t> find_shift(const OpGraph& graph) {
  std::optional<int64_t> shift;
  size_t longest = 0;
  size_t most = 0;
  for (const RoleOps& role : graph.roles) most = std::max(most, role.items.size());
  std::vector<Item> passes;
  passes.reserve(most);
  for (const RoleOps& role : graph.roles) {
    passes.clear();
    for (const Item& item : role.items)
      if (item.kind == ItemKind::pass) passes.push_back(item);
    const std::optional<Repetition> found = find_repetition(passes);
    if (!found || found->shift <= 0 || found->end - found->begin <= longest) continue;
    longest = found->end - found->begin;
    shift = found->shift;
  }
  return shift;
}

class SteadyStateFinder {
 public:
  explicit SteadyStateFinder(const OpGraph& graph)
      : graph_(graph), first_(graph.rendezvous.size() + 2) {
    found_.later.assign(graph.rendezvous.size(), SteadyState::kNone);
    found_.earlier = found_.later;
    for_visits([&](size_t id, const Visit&) { ++first_[id + 2]; });
    for (size_t id = 2; id < first_.size(); ++id) first_[id] += first_[id - 1];
    visits_.resize(first_.back());
    for_visits([&](size_t id, const Visit& visit) { visits_[first_[id + 1]++] = visit; });
  }

  std::optional<SteadyState> find(int64_t shift) {
    for (const RoleOps& role : graph_.roles)
      if (!add_window(role.items, shift)) return {};
    return std::move(found_);
  }

 private:
  // A post or join of a rendezvous.
  struct Visit {
    size_t role = 0;
    ItemKind kind{};
    Stream stream{};
    bool host_waits = false, only_sends = false;

    bool operator==(const Visit&) const = default;
  };

  // of(id, visit) of each of all rendezvous, role by role.
  template <class F>
  void for_visits(const F& of) const {
    for (size_t r = 0; r < graph_.roles.size(); ++r) {
      for (const Item& item : graph_.roles[r].items) {
        if (item.kind == ItemKind::post || item.kind == ItemKind::join)
          of(static_cast<size_t>(item.rendezvous),
             Visit{r, item.kind, item.stream, item.host_waits, item.only_sends});
      }
    }
  }

  std::span<const Visit> visits_of(size_t id) const {
    return std::span(visits_).subspan(first_[id], first_[id + 1] - first_[id]);
  }

  bool add_window(const std::vector<Item>& items, int64_t shift) {
    const auto size = static_cast<uint32_t>(items.size());
    uint32_t middle = size / 2;
    while (middle < size && !(items[middle].kind == ItemKind::pass && items[middle].has_action))
      ++middle;
    if (middle == size) return false;
    const Action& action = items[middle].action;
    uint32_t again = middle + 1;
    for (; again < size; ++again) {
      const Item& item = items[again];
      if (item.kind == ItemKind::pass && item.has_action && item.action.kind == action.kind &&
          item.action.stage == action.stage &&
          int64_t{item.action.microbatch} - int64_t{action.microbatch} == shift)
        break;
    }
    if (again == size) return false;
    const uint32_t length = again - middle;
    uint32_t begin = middle, end = middle;
    while (begin > 0 && does_again(items[begin - 1], items[begin - 1 + length])) --begin;
    while (end + length < size && does_again(items[end], items[end + length])) ++end;
    end += length;
    if (end - begin < 3 * length) return false;
    found_.roles.push_back({begin, end, length});
    return true;
  }

  bool does_again(const Item& a, const Item& b) {
    if (a.kind != b.kind || a.stream != b.stream) return false;
    switch (a.kind) {
      case ItemKind::pass: return a.pass == b.pass;
      case ItemKind::join:
        return !a.host_waits && !b.host_waits && a.only_sends == b.only_sends && joins_again(a, b);
      case ItemKind::post: return joins_again(a, b);
      case ItemKind::record:
      case ItemKind::wait:
      case ItemKind::sync: return true;
    }
    return false;
  }

  // One rendezvous is the other one a period later, for all roles that have to do with it.
  bool joins_again(const Item& a, const Item& b) {
    const auto before = static_cast<uint32_t>(a.rendezvous);
    const auto after = static_cast<uint32_t>(b.rendezvous);
    const Rendezvous &one = graph_.rendezvous[before], &other = graph_.rendezvous[after];
    if (one.work != other.work || one.launch != other.launch ||
        !std::ranges::equal(visits_of(before), visits_of(after)))
      return false;
    if (found_.later[before] == SteadyState::kNone && found_.earlier[after] == SteadyState::kNone) {
      found_.later[before] = after;
      found_.earlier[after] = before;
    }
    return found_.later[before] == after && found_.earlier[after] == before;
  }

  const OpGraph& graph_;
  std::vector<size_t> first_;  // by rendezvous: the first of its visits
  std::vector<Visit> visits_;
  SteadyState found_;
};

}  // namespace

std::optional<SteadyState> find_steady_state(const OpGraph& graph) {
  const std::optional<int64_t> shift = find_shift(graph);
  if (!shift) return {};
  return SteadyStateFinder(graph).find(*shift);
}

}  // namespace stepcast
