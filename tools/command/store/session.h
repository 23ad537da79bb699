// SPDX-License-Identifier: Apache-2.0
// What commands that forecast many steps have in common: their part of the work (--shard), the rows
// they keep and take up again (--store), the batch script that starts them (--slurm), and how they
// end when they are asked to.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "scenarios/search/step_store.h"
#include "scenarios/search/sweep.h"
#include "tools/command/command.h"

namespace CLI {
class App;
}

namespace stepcast::cli {

// --store, --shard, --slurm, -j.
void add_many_steps(CLI::App* sub, Arguments& args);

// The part that --shard says; the whole without it.  Throws InputError E004.
SearchShard shard_of(const Arguments& args);

// The threads that -j says; without it one for each core.
int jobs_of(const Arguments& args);

// Writes the batch script that --slurm asks for, to standard output or --out.  False without it.
// Throws InputError E003 if there is no --store.
bool wrote_batch_script(const Arguments& args);

// Ctrl-C was typed (once; the second one ends the process).
bool was_interrupted();

// From here on Ctrl-C is noted, and with a store SIGTERM too.  Where Ctrl-C is ignored, it stays
// so.
class NotedSignals {
 public:
  explicit NotedSignals(bool terminate);
  NotedSignals(const NotedSignals&) = delete;
  NotedSignals& operator=(const NotedSignals&) = delete;
  ~NotedSignals();

 private:
  bool terminate_;
  void (*interrupt_before_)(int);
};

// SIGTERM arrived: thrown by whatever works next.
struct Terminated : std::exception {};

constexpr int kExitInterrupted = 130;
constexpr int kExitTerminated = 143;

// The rows of a folder: those of all files in it are known, new ones go into the file of this
// command, scenario and part of the work.  Committed each second, and when it ends.
class StoreSession {
 public:
  // Throws InputError as StepStore().
  StoreSession(const Arguments& args, const std::string& command, const SearchShard& shard);

  // For SearchRun and SweepRun; throws Terminated.
  RememberedTrial remember();
  void throw_if_terminated() const;
  // Commits, and says what is left when SIGTERM ended the command.
  void end_early(int64_t done, int64_t total, const std::string& what);
  void close();

 private:
  struct KeyHash {
    size_t operator()(const Hash128& key) const { return static_cast<size_t>(key.low); }
  };
  void take_up(const StepRow& row, bool own);
  void commit_each_second(const std::stop_token& stop);

  std::mutex mutex_;  // of all below
  std::optional<StepStore> store_;
  std::unordered_map<Hash128, Evaluator::Trial, KeyHash> known_;  // by step
  std::unordered_set<Hash128, KeyHash> others_;  // keys of rows that other files hold
  std::unordered_set<Hash128, KeyHash> said_;    // by this command: its row is as it is now
  bool committed_ = true;                        // all that was kept
  std::exception_ptr failed_;                    // a commit, of the thread below
  std::condition_variable_any ended_;
  std::jthread committer_;
};

}  // namespace stepcast::cli
