// SPDX-License-Identifier: Apache-2.0
// stepcast size FILE|PRESET: what a model takes, asked before there is a layout.
#include "tools/size.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <charconv>
#include <optional>

#include "forecast/size.h"
#include "report/size_text.h"
#include "scenarios/number.h"
#include "tools/output.h"

namespace stepcast::cli {
namespace {

constexpr const char* kFooter =
    "FILE is a scenario or a Hugging Face config.json, PRESET the name of a model. Where nothing\n"
    "is said: 8 x H100, steps of 1,024 sequences of 4,096 tokens (-s batch.global=1536). The\n"
    "layout of a scenario is not used: layouts are tried, fewest GPUs first, until one fits.\n\n"
    "N: parameters; x, y: bytes of a parameter and of its gradient; T: tokens of a step.";

// What stands behind an option, read as in a scenario.
template <class Read>
auto read_option(const char* option, const std::string& text, Read read) {
  Problems problems;
  const Value value = parse_yaml(problems, problems.add_source({option, text, false}));
  const auto result = read(value, problems);
  problems.throw_if_any();
  return *result;
}

int size_command(const Arguments& args, const Terminal& terminal) {
  const SizeArguments& a = args.size;
  SizeOptions options;
  options.load.set = parse_sets(args.set);
  options.load.root = args.root;
  options.gpu = a.gpu;
  options.search = !a.no_search;
  if (!a.tokens.empty())
    options.tokens = static_cast<double>(read_option(
        "--tokens", a.tokens,
        [](const Value& v, Problems& problems) { return read_tokens(v, "--tokens", problems); }));
  if (!a.mfu.empty()) {
    options.mfu = read_option("--mfu", a.mfu, [](const Value& v, Problems& problems) {
      return read_share(v, "--mfu", problems);
    });
    if (*options.mfu <= 0)
      usage_error("E004", "'--mfu " + a.mfu + "' is no utilization", "for example: --mfu 40%");
  }
  std::optional<std::string> text;
  if (a.subject == "-") text = standard_input();
  const ModelSize size = size_model(text ? "<stdin>" : a.subject, text, options);
  write_stdout(args.json ? size_json(size, version()) : size_text(size, terminal.out));
  return 0;
}

}  // namespace

void add_size(CLI::App& app, Arguments& args, Command& command) {
  CLI::App* sub = app.add_subcommand(
      "size", "Say what a model takes: parameters, FLOPs, memory, the smallest layout that fits");
  sub->callback([&command] { command = size_command; });
  sub->footer(kFooter);
  SizeArguments& a = args.size;
  sub->add_option("FILE", a.subject, "scenario, config.json or model preset; - is standard input")
      ->required()
      ->option_text(" ");
  sub->add_option("--tokens", a.tokens, "of the whole training: 15T")->option_text("COUNT");
  sub->add_option("--gpu", a.gpu, "GPU or cluster preset: h100, b200, dgx-a100-80g")
      ->option_text("NAME");
  sub->add_option("--mfu", a.mfu, "utilization to reckon days with: 40%")->option_text("SHARE");
  sub->add_flag("--no-search", a.no_search, "rules of thumb only, no layouts");
  sub->add_option("-s,--set", args.set, "set a value, as often as needed: -s batch.seq=8192")
      ->allow_extra_args(false)
      ->option_text("PATH=VALUE");
  sub->add_option("--root", args.root, "directory that `extends` may not leave")
      ->option_text("DIR");
  add_common(sub, args);
}

}  // namespace stepcast::cli
