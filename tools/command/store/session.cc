// SPDX-License-Identifier: Apache-2.0
#include "tools/command/store/session.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>

#include "scenarios/search/shard.h"
#include "sim/text.h"
#include "tools/command/options.h"
#include "tools/command/output.h"

namespace stepcast::cli {
namespace {

std::atomic<bool> interrupt_noted{false}, terminate_noted{false};

extern "C" void note_ctrl_c(int) {
  interrupt_noted = true;
  std::signal(SIGINT, SIG_DFL);
}
extern "C" void note_terminate(int) {
  terminate_noted = true;
}

std::string counted_shards(const std::string& text) {
  const int64_t n = parse_count("--slurm", text, 1);
  if (n > 100'000) usage_error("E004", "--slurm " + text + " is more than 100,000 tasks", "fewer");
  return fmt::to_string(n);
}

// The same line as a task of an array runs it: without what is written at the end.
std::string task_line(const Arguments& args) {
  std::string line;
  for (const std::string& word : args.words)
    if (std::ranges::any_of(word, [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
      usage_error("E004", "--slurm: '" + escape_text(word) + "' has control characters",
                  "a batch script has lines of text");
  for (size_t i = 0; i < args.words.size(); ++i) {
    const std::string& word = args.words[i];
    const bool with_value = word == "--slurm" || word == "--shard" || word == "-o" ||
                            word == "--out" || word == "--output" || word == "--html";
    if (with_value) {
      ++i;
      continue;
    }
    if (word.starts_with("--slurm=") || word.starts_with("--shard=") ||
        word.starts_with("--out=") || word.starts_with("--output=") ||
        word.starts_with("--html=") || word == "--force" ||
        (word.starts_with("-o") && word.size() > 2))
      continue;
    line += (line.empty() ? "" : " ") + shell_word(word);
  }
  return line;
}

}  // namespace

void add_many_steps(CLI::App* sub, Arguments& args) {
  sub->add_option("--store", args.store,
                  "keep what is simulated in this folder, and take up what is there")
      ->option_text("DIR");
  sub->add_option("--shard", args.shard,
                  "do a part: 2/64, the second of 64; auto: as sbatch --array, srun, mpirun,\n"
                  "Kubernetes or HyperQueue say; auto/64")
      ->option_text("I/N");
  sub->add_option("--slurm", args.slurm, "print a batch script of N tasks instead of running")
      ->option_text("N");
  add_jobs(sub, args);
}

SearchShard shard_of(const Arguments& args) {
  if (args.shard.empty()) return {};
  const SearchShard shard =
      read_shard(args.shard, [](const char* name) -> std::optional<std::string> {
        const char* value = std::getenv(name);
        return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
      });
  if (args.store.empty() && args.slurm.empty() && !args.quiet)
    write_stderr(
        "warning: --shard without --store: what this part finds is printed and kept nowhere, so "
        "that no other part and no later line knows of it\n");
  return shard;
}

bool wrote_batch_script(const Arguments& args) {
  if (args.slurm.empty()) return false;
  if (args.store.empty())
    usage_error("E003", "--slurm needs --store DIR", "a folder that all nodes see");
  if (!args.shard.empty())
    usage_error("E003", "--slurm gives each of its tasks a shard: not beside --shard");
  if (args.file == "-")
    usage_error("E003", "--slurm needs a file", "tasks cannot read this standard input");
  const std::string tasks = counted_shards(args.slurm);
  std::string whole = task_line(args);
  std::string line = whole + fmt::format(" --shard auto/{}", tasks);
  if (!args.jobs) line += " -j \"${SLURM_CPUS_PER_TASK:-1}\"";
  const std::string text = fmt::format(
      "#!/bin/bash\n"
      "#SBATCH --job-name={}\n"
      "#SBATCH --array=1-{}\n"
      "#SBATCH --cpus-per-task=4\n"
      "#SBATCH --time=01:00:00\n"
      "#SBATCH --signal=B:TERM@60\n"
      "#SBATCH --requeue\n"
      "# Each task keeps its rows in {}.  Tasks that were stopped go on where they were when they\n"
      "# are started again.  When all have ended, the answer, from their rows:\n"
      "#   stepcast {}\n"
      "exec stepcast {}\n",
      shell_word("stepcast-" + store_stem(args.file)), tasks, shell_word(args.store), whole, line);
  deliver(text, args.output, args.force);
  return true;
}

bool was_interrupted() {
  return interrupt_noted;
}

NotedSignals::NotedSignals(bool terminate)
    : terminate_(terminate), interrupt_before_(std::signal(SIGINT, note_ctrl_c)) {
  if (interrupt_before_ == SIG_IGN) std::signal(SIGINT, SIG_IGN);
  if (terminate_) std::signal(SIGTERM, note_terminate);
}

NotedSignals::~NotedSignals() {
  std::signal(SIGINT, interrupt_before_ == SIG_IGN ? SIG_IGN : SIG_DFL);
  if (terminate_) std::signal(SIGTERM, SIG_DFL);
}

void StoreSession::throw_if_terminated() const {
  if (terminate_noted) throw Terminated{};
}

void StoreSession::end_early(int64_t done, int64_t total, const std::string& what) {
  folder_.close();
  write_stderr(
      fmt::format("Stopped by SIGTERM: {} of {} {} are left. What was simulated is kept "
                  "in {}; the same line goes on from there.\n",
                  total - done, total, what, escape_text(folder_.path())));
}

}  // namespace stepcast::cli
