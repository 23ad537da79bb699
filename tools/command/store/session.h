// SPDX-License-Identifier: Apache-2.0
// What commands that forecast many steps have in common: their part of the work (--shard), the rows
// they keep and take up again (--store), the batch script that starts them (--slurm), and how they
// end when they are asked to.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "scenarios/search/store_folder.h"
#include "scenarios/search/sweep.h"
#include "stepcast/build.h"
#include "tools/command/command.h"

namespace CLI {
class App;
}

namespace stepcast::cli {

// --store, --shard, --slurm, -j.
void add_many_steps(CLI::App* sub, Arguments& args);

// The part that --shard says; the whole without it.  Throws InputError E004.
SearchShard shard_of(const Arguments& args);

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

// The rows of the folder that --store names (store_folder.h), until SIGTERM.
class StoreSession {
 public:
  // Throws InputError as StoreFolder().
  StoreSession(const Arguments& args, const std::string& command, const SearchShard& shard)
      : folder_(args.store, store_file_name(args.file, command, shard), std::string(build()),
                [this] { throw_if_terminated(); }) {}

  // For SearchRun and SweepRun; throws Terminated.
  RememberedTrial remember() { return folder_.remember(); }
  RememberedEnergy remember_energy() { return folder_.remember_energy(); }
  void throw_if_terminated() const;
  // Commits, and says what is left when SIGTERM ended the command.
  void end_early(int64_t done, int64_t total, const std::string& what);
  void close() { folder_.close(); }

 private:
  StoreFolder folder_;
};

}  // namespace stepcast::cli
