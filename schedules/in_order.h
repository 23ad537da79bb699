// SPDX-License-Identifier: Apache-2.0
// Lists of steps that are executed in order, each as soon as steps of other lists have been: how
// far they get, and who waits for whom where they do not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/check.h"

namespace stepcast {

// An entry of a list.
struct ListPlace {
  uint32_t list = 0, position = 0;
  auto operator<=>(const ListPlace&) const = default;
};

// Executes `lists` lists as far as they go and returns for each the first entry that was not
// executed.  `step(place)` is the number of entries that are executed as one from there on, 0 at
// the end of the list; `awaited(place, next)` is a place with next[list] <= position that must be
// executed before, or nothing.  O(entries * longest queue of lists that wait for one list).
template <class Step, class Awaited>
std::vector<uint32_t> execute_in_order(size_t lists, const Step& step, const Awaited& awaited) {
  std::vector<uint32_t> next(lists, 0);
  struct Waiting {
    uint32_t list = 0, position = 0;  // goes on when the other list is past `position`
  };
  std::vector<std::vector<Waiting>> waiting(lists);  // by the list that is waited for
  std::vector<uint32_t> ready;
  for (size_t l = lists; l-- > 0;) ready.push_back(static_cast<uint32_t>(l));
  while (!ready.empty()) {
    const uint32_t list = ready.back();
    ready.pop_back();
    while (const uint32_t entries = step(ListPlace{list, next[list]})) {
      const std::optional<ListPlace> place = awaited(ListPlace{list, next[list]}, next);
      if (place) {
        waiting[place->list].push_back({list, place->position});
        break;
      }
      next[list] += entries;
    }
    std::erase_if(waiting[list], [&](const Waiting& w) {
      if (next[list] <= w.position) return false;
      ready.push_back(w.list);
      return true;
    });
  }
  return next;
}

// The lists of the cycle that the stuck list `start` runs into if one follows what is awaited,
// beginning with the lowest.
template <class Awaited>
std::vector<uint32_t> cycle_from(uint32_t start, const std::vector<uint32_t>& next,
                                 const Awaited& awaited) {
  std::vector<uint32_t> path;
  uint32_t list = start;
  for (auto seen = path.end(); (seen = std::find(path.begin(), path.end(), list)) == path.end();) {
    path.push_back(list);
    const std::optional<ListPlace> place = awaited(ListPlace{list, next[list]}, next);
    STEPCAST_CHECK(place.has_value(), "a stuck list waits for something");
    list = place->list;
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), list));
  std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
  return path;
}

}  // namespace stepcast
