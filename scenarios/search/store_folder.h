// SPDX-License-Identifier: Apache-2.0
// Rows of steps in a folder that several processes share: `--store DIR`.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "scenarios/search/search.h"
#include "scenarios/search/step_store.h"
#include "scenarios/search/sweep.h"

namespace stepcast {

// "my" of "runs/my.yaml": what files of this scenario are called.
std::string store_stem(const std::string& file);
// "my.search.2-of-64.db": where a part of the work on a scenario keeps its rows.
std::string store_file_name(const std::string& file, const std::string& command,
                            const SearchShard& shard);

// The rows of all files in the folder are known, new ones go into the one of this work.  Committed
// each second, and when it ends.
class StoreFolder {
 public:
  // Makes the folder if there is none.  `build`: of the program, which is part of the keys.
  // `check`: called by all threads before each step; what it throws ends the work.  Throws
  // InputError as StepStore(), and E502 for a folder that cannot be made.
  StoreFolder(const std::string& folder, const std::string& name, std::string build,
              std::function<void()> check = {});

  // For SearchRun and SweepRun.  REQUIRES: not longer than this lives.
  RememberedTrial remember();
  RememberedEnergy remember_energy();
  void close();
  const std::string& path() const { return store_->path(); }

 private:
  struct KeyHash {
    size_t operator()(const Hash128& key) const { return static_cast<size_t>(key.low); }
  };
  struct Known {
    Evaluator::Trial trial;
    std::optional<double> joules_per_token{};
  };
  void take_up(const StepRow& row, bool own);
  void keep(StepRow row);
  void commit_each_second(const std::stop_token& stop);

  std::string build_;
  std::function<void()> check_;
  std::mutex mutex_;  // of all below
  std::optional<StepStore> store_;
  std::unordered_map<Hash128, Known, KeyHash> known_;  // by step
  // Keys of rows that other files hold: whether one of them says the energy too.
  std::unordered_map<Hash128, bool, KeyHash> others_;
  std::unordered_set<Hash128, KeyHash> said_;  // by this work: its row is as it is now
  bool committed_ = true;                      // all that was kept
  std::exception_ptr failed_;                  // a commit, of the thread below
  std::condition_variable_any ended_;
  std::jthread committer_;
};

}  // namespace stepcast
