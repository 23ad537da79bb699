// SPDX-License-Identifier: Apache-2.0
// under_schedule: the scenario is loaded with fewer and fewer of its keys until it can be.
#include "tools/compare_schedules.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "sim/diagnostic.h"

namespace stepcast::cli {
namespace {

using Sets = std::vector<std::pair<std::string, std::string>>;

// What not every schedule takes.
constexpr std::array<const char*, 4> kKeys{"schedule.group", "schedule.params", "schedule.p2p",
                                           "schedule.memory_limit"};
constexpr unsigned kAll = (1u << kKeys.size()) - 1;

// What is dropped, as bits of kKeys: nothing, then as little as possible.
std::vector<unsigned> attempts() {
  std::vector<unsigned> all;
  for (unsigned dropped = 0; dropped <= kAll; ++dropped) all.push_back(dropped);
  std::stable_sort(all.begin(), all.end(), [](unsigned a, unsigned b) {
    return __builtin_popcount(a) < __builtin_popcount(b);
  });
  return all;
}

Sets sets_for(const std::string& name, const char* vpp, unsigned dropped) {
  // Orders written out give way.
  Sets set{{"schedule.kind", name}, {"schedule.steps", "null"}, {"schedule.file", "null"}};
  for (size_t k = 0; k < kKeys.size(); ++k)
    if ((dropped >> k & 1) != 0) set.emplace_back(kKeys[k], "null");
  if (*vpp != 0) set.emplace_back("parallel.vpp", vpp);
  return set;
}

// The schedule is named on the command line, not in a --set.
void forget_place(Diagnostic& d) {
  if (d.file != "--set schedule.kind") return;
  d.file.clear();
  d.source_line.clear();
  d.line = d.column = 0;
}

std::optional<InputError> problem_of(const Sets& set, const Arguments& args) {
  try {
    load(args.files.front(), args, set);
    return {};
  } catch (InputError& e) {
    for (Diagnostic& d : e.diagnostics) forget_place(d);
    return e;
  }
}

// Whether a key goes with some schedules only: its value may be wrong as well.
bool is_misplaced(const InputError& e) {
  return std::all_of(e.diagnostics.begin(), e.diagnostics.end(),
                     [](const Diagnostic& d) { return d.code == "E127" || d.code == "E102"; });
}

// Each key goes because the schedule has no such key, not because its value is wrong.
void check_dropped(const std::string& name, const char* vpp, unsigned dropped,
                   const Arguments& args) {
  for (size_t k = 0; k < kKeys.size(); ++k) {
    if ((dropped >> k & 1) == 0) continue;
    const auto problem = problem_of(sets_for(name, vpp, dropped & ~(1u << k)), args);
    if (problem && !is_misplaced(*problem)) throw InputError(*problem);
  }
}

}  // namespace

void check_own_schedule(const Arguments& args) {
  const auto problem = problem_of({}, args);
  if (problem && is_misplaced(*problem)) throw InputError(*problem);
}

UnderSchedule under_schedule(const std::string& name, const Arguments& args) {
  std::optional<InputError> first;
  for (const char* vpp : {"", "null", "2"}) {
    const std::optional<InputError> bare = problem_of(sets_for(name, vpp, kAll), args);
    if (bare && !first) first = bare;
    if (bare) continue;
    for (const unsigned dropped : attempts()) {
      const Sets set = sets_for(name, vpp, dropped);
      if (problem_of(set, args)) continue;
      check_dropped(name, vpp, dropped, args);
      UnderSchedule under{name, set, {}};
      const int64_t chunks = load(args.files.front(), args, set).plan.vpp;
      if (chunks > 1) under.name += " vpp " + std::to_string(chunks);
      for (size_t k = 0; k < kKeys.size(); ++k)
        if ((dropped >> k & 1) != 0) under.dropped.emplace_back(kKeys[k]);
      return under;
    }
  }
  throw InputError(*first);
}

}  // namespace stepcast::cli
