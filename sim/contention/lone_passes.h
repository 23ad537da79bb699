// SPDX-License-Identifier: Apache-2.0
// Internal to the contention engine: a step of equal ranks in which compute meets communication
// inside passes alone.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/contention/contention.h"
#include "sim/contention/equal_ranks.h"

namespace stepcast {

// What passes took that were run by themselves, for the steps that have them in common.  Belongs to
// one thread.
class LonePassCache {
 public:
  using Known = std::vector<std::pair<contention::LonePassBegin, contention::LonePassEnd>>;

  // `key`: everything that decides what the pass takes.  The reference holds until the next call
  // of make_room().
  Known& of(const std::vector<int64_t>& key);
  // Before a step: forgets ways to begin of passes that have many, and all where that is much.
  // So what is kept is less than 32 MiB and what the passes of the last step take.
  void make_room();

  size_t size() const { return kept_.size(); }  // passes

 private:
  struct Kept {
    std::vector<int64_t> key;
    Known known;
  };
  std::map<uint64_t, std::vector<Kept*>> by_hash_;
  std::deque<Kept> kept_;
};

namespace contention {

// As run_equal_ranks(), of `given` lanes that are equal; nothing where something of a rank may run
// beside a pass that is not part of it, or where passes have to be run again and again, since the
// host is late for each in its own way.  Nothing either where run_contended() throws.  `cache` may
// be null.  O(items), and each pass once for each way in which it begins.
std::optional<ContentionResult> run_lone_passes(const OpGraph& graph, const Prices& prices,
                                                int64_t given, int64_t slow_compute,
                                                int64_t slow_communication, bool merge,
                                                bool record = false,
                                                LonePassCache* cache = nullptr);

}  // namespace contention
}  // namespace stepcast
