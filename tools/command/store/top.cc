// SPDX-License-Identifier: Apache-2.0
// stepcast top DIR|FILE...: the best rows of stores.  stepcast merge DIR|FILE... -o ALL: stores as
// one.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>

#include "report/text/steps.h"
#include "scenarios/search/step_store.h"
#include "sim/results/step_ranking.h"
#include "sim/system_error.h"
#include "sim/text.h"
#include "tools/command/options.h"
#include "tools/command/output.h"
#include "tools/command/store/ranking.h"

namespace stepcast::cli {
namespace {

namespace fs = std::filesystem;

int top_command(const Arguments& args, const Terminal& terminal) {
  if (args.csv && args.json) usage_error("E003", "one of --csv and --json at a time");
  const StepRanking ranking = ranking_of(args);
  // What is ranked far behind is dropped now and then: stores may have many more rows than memory.
  constexpr size_t kAtOnce = 1'000'000;
  std::vector<StepRow> rows;
  for (const std::string& file : all_files(args))
    read_steps(file, [&](StepRow row) {
      rows.push_back(std::move(row));
      if (rows.size() >= kAtOnce) rows = rank_steps(std::move(rows), ranking);
    });
  rows = rank_steps(std::move(rows), ranking);
  TextStyle style = terminal.out;
  style.width = std::max(style.width, terminal.columns);
  write_stdout(args.json  ? steps_json(rows, ranking, version())
               : args.csv ? steps_csv(rows)
                          : steps_text(rows, ranking, style));
  return 0;
}

[[noreturn]] void fail_to_write(const std::string& to, const std::string& why) {
  throw file_error("E502", "cannot write '" + to + "': " + why, to, "another name");
}

// The file and what SQLite may have left beside it.
void remove_logs(const std::string& file) {
  std::error_code error;
  for (const char* log : {"-wal", "-journal", "-shm"})
    if (fs::remove(file + log, error); error)
      fail_to_write(file + log, system_error_text(error.value()));
}

int64_t rows_in(const std::string& file) {
  int64_t rows = 0;
  read_steps(file, [&](const StepRow&) { ++rows; });
  return rows;
}

[[noreturn]] void refuse_existing(const std::string& file) {
  throw file_error("E501", "'" + file + "' exists already", file, "--force overwrites it");
}

// Puts the file in the place of another, which is no longer there, nor are its logs: SQLite would
// take what they say for what was written last to the new one.  Throws InputError E510 if another
// process has the old one open.  Without --force a store that appeared meanwhile is left alone, and
// so are its logs.
void replace_store(const std::string& made, const std::string& to, bool force) {
  std::error_code error;
  if (force && fs::exists(to, error)) {
    try {
      StepStore(to).close();
    } catch (const InputError& e) {
      // What is no store is open to nobody who writes one.
      if (e.diagnostics.front().code == "E510") throw;
    }
  }
  if (force) {
    remove_logs(to);
    fs::rename(made, to, error);
  } else {
    for (const char* log : {"-wal", "-journal", "-shm"})
      if (fs::exists(to + log, error)) refuse_existing(to + log);
    fs::create_hard_link(made, to, error);
    if (error && error != std::errc::file_exists) {  // a file system without hard links
      if (fs::exists(to, error)) refuse_existing(to);
      fs::rename(made, to, error);
    }
  }
  if (error == std::errc::file_exists) refuse_existing(to);
  if (error) fail_to_write(to, system_error_text(error.value()));
}

int merge_command(const Arguments& args, const Terminal&) {
  if (args.output.empty() || args.output == "-")
    usage_error("E003", "merge needs -o FILE", "-o all.db");
  const std::vector<std::string> files = all_files(args);
  refuse_overwriting(files, args);
  std::error_code error;
  // What a link leads to is replaced, not the link.
  std::string to = args.output;
  if (fs::is_symlink(to, error)) to = fs::weakly_canonical(to, error).string();
  if (fs::is_directory(to, error)) fail_to_write(to, "it is a folder");
  if (fs::exists(to, error) && !fs::is_regular_file(to, error))
    fail_to_write(to, "it is no regular file");
  if (fs::exists(to, error) && !args.force) refuse_existing(to);
  // Made beside it: a merge that fails leaves what was there.
  const std::string temporary = fmt::format("{}.{}.part", to, ::getpid());
  int64_t rows = 0, distinct = 0;
  {
    const TemporaryFiles made(
        {temporary, temporary + "-wal", temporary + "-journal", temporary + "-shm"});
    // Of a process that had the same number and was killed.
    if (fs::remove(temporary, error); error)
      fail_to_write(temporary, system_error_text(error.value()));
    remove_logs(temporary);
    StepStore all(temporary);
    for (const std::string& file : files)
      read_steps(file, [&](const StepRow& row) {
        all.unite(row);
        ++rows;
      });
    all.close();
    distinct = rows_in(temporary);
    replace_store(temporary, to, args.force);
  }
  if (const int64_t there = rows_in(to); there != distinct)
    throw file_error(
        "E513",
        fmt::format("the store '{}' is damaged: of {} rows {} are there", to, distinct, there), to,
        "another process changed it: repeat the line");
  if (!args.quiet)
    write_stderr(fmt::format("{} of {} in {}, from {}\n", counted(distinct, "row", "rows"),
                             grouped(rows), escape_text(to),
                             counted(static_cast<int64_t>(files.size()), "store", "stores")));
  return 0;
}

}  // namespace

void add_top(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* sub = add_command(app, "top", "List the best rows of stores", chosen, top_command);
  sub->footer(
      "Stores are what `stepcast search` and `sweep` keep with --store (docs/store.md).\n\n"
      "  stepcast top runs/ --by step_time,price --pareto --csv");
  add_files(sub, args, "STORE", "folders of stores, or files");
  add_ranking(sub, args);
  sub->add_flag("--csv", args.csv, "all columns as CSV");
  add_common(sub, args);
}

void add_merge(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* sub = add_command(app, "merge", "Make one store of several", chosen, merge_command);
  sub->footer("  stepcast merge runs/ -o all.db");
  add_files(sub, args, "STORE", "folders of stores, or files");
  sub->add_option("-o,--output", args.output, "the store to write")->option_text("FILE");
  add_force(sub, args);
  add_common(sub, args);
}

}  // namespace stepcast::cli
