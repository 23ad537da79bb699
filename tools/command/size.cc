// SPDX-License-Identifier: Apache-2.0
// stepcast size FILE|PRESET: what a model takes, asked before there is a layout.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <optional>
#include <system_error>

#include "report/text/size.h"
#include "scenarios/document/config_folder.h"
#include "scenarios/document/number.h"
#include "scenarios/forecast/size.h"
#include "tools/command/import.h"
#include "tools/command/options.h"
#include "tools/command/output.h"

namespace stepcast::cli {
namespace {

constexpr const char* kSizeFooter =
    "FILE is a scenario, a Hugging Face config.json or the name of a model preset. Where nothing\n"
    "is said: 8 x H100, steps of 1,024 sequences of 4,096 tokens (-s batch.global=1536). The\n"
    "layout of a scenario is not used: layouts are tried, fewest GPUs first, until one fits.\n\n"
    "N: parameters; x, y: bytes of a parameter and of its gradient; T: tokens of a step.";

// The importer that reads the file; empty for presets and scenarios.
std::string kind_of_subject(const std::string& subject) {
  std::error_code none;
  if (subject == "-") return std::string(kind_of_file(standard_input()));
  if (!std::filesystem::is_regular_file(subject, none)) return {};
  return std::string(kind_of_file(read_whole_file(subject)));
}

int size_command(const Arguments& args, const Terminal& terminal) {
  SizeOptions options;
  options.load.set = parse_sets(args.set);
  options.load.root = args.root;
  options.gpu = args.gpu;
  options.search = !args.no_search;
  options.tokens = args.tokens.value_or(0);
  options.mfu = args.mfu;
  if (args.mfu && *args.mfu <= 0)
    usage_error("E004", fmt::format("'--mfu {}' is no utilization", *args.mfu),
                "for example: --mfu 40%");
  if (args.mfu && !args.tokens)
    usage_error("E003", "--mfu is for GPU-days, and --tokens says of how many tokens",
                "for example: --tokens 15T --mfu 40%");
  std::optional<std::string> text;
  std::string subject = config_in(args.file);
  if (const auto kind = kind_of_subject(subject); !kind.empty() && kind != "hf") {
    text = imported_scenario(subject, args);
    options.load.set.clear();  // went into the import
  } else if (subject == "-") {
    text = standard_input();
  } else if (std::error_code none; std::filesystem::is_symlink(subject, none)) {
    // In the Hub's cache files are links to blobs, which lie outside the folder.
    subject = std::filesystem::canonical(subject).string();
  }
  const ModelSize size = size_model(subject == "-" ? "<stdin>" : subject, text, options);
  write_stdout(args.json ? size_json(size, version()) : size_text(size, terminal.out));
  return 0;
}

}  // namespace

void add_size(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* sub =
      add_command(app, "size", "Say what a model takes: parameters, FLOPs, memory, the fewest GPUs",
                  chosen, size_command);
  sub->footer(kSizeFooter);
  add_file(sub, args, "FILE", "scenario, config.json or model preset; - is standard input");
  add_quantity(sub, "--tokens", args.tokens, read_tokens,
               "of the whole training, for GPU-days: 15T", "COUNT");
  add_gpu(sub, args, "GPU or cluster preset: h100-sxm (the default), b200-sxm, dgx-a100-80g");
  add_quantity(sub, "--mfu", args.mfu, read_share,
               "utilization to reckon GPU-days with, beside that of the forecast: 40%", "SHARE");
  sub->add_flag("--no-search", args.no_search, "rules of thumb only, no layouts are tried");
  add_scenario_options(sub, args, "batch.seq=8192");
  add_common(sub, args);
}

}  // namespace stepcast::cli
