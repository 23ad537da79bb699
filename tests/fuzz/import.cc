// SPDX-License-Identifier: Apache-2.0
// To each importer of runs: what is written is YAML, and loads or is refused as any scenario is.
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "scenarios/document/files.h"
#include "scenarios/document/value.h"
#include "scenarios/frameworks/import_run.h"
#include "scenarios/scenario.h"
#include "sim/check.h"
#include "sim/diagnostic.h"
#include "tests/fuzz/readers.h"

namespace stepcast::fuzz {
namespace {

constexpr std::string_view kConfig =
    R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
"max_position_embeddings": 8192, "num_attention_heads": 32, "num_hidden_layers": 32,
"num_key_value_heads": 8, "vocab_size": 128256})";

void check_yaml(const std::string& scenario, std::string_view kind) {
  Problems problems;
  parse_yaml(problems, problems.add_source({"written", scenario}));
  try {
    problems.throw_if_any();
  } catch (const InputError& e) {
    STEPCAST_CHECK(
        false, std::string(e.what()) + "\nwritten from " + std::string(kind) + ":\n" + scenario);
  }
}

void import_as(std::string_view text, std::span<const std::string_view> kinds) {
  ImportRequest request;
  request.file = "fuzz";
  request.text = text;
  // A file that names others reads itself, and is given what it may ask for.
  request.given = {"7B", "SIZE=1", "TP=2"};
  request.files = [&](std::string_view path) -> std::optional<std::string> {
    const bool itself = path.ends_with(".sh") || path.ends_with(".yaml");
    return itself ? std::optional(std::string(text.substr(0, 4096))) : std::nullopt;
  };
  request.model_file = "config.json";
  request.model_text = kConfig;
  LoadOptions options;
  options.root = "/nonexistent";  // nothing to extend
  for (const std::string_view kind : kinds) {
    request.kind = kind;
    try {
      const ImportedRun run = import_run(request);
      check_yaml(run.scenario, kind);
      // A config.json says nothing of the step.
      options.set.clear();
      if (run.kind == "hf") options.set.emplace_back("batch", "{global: 64, micro: 1, seq: 2048}");
      load_scenario_text(run.scenario, "imported.yaml", options);
    } catch (const InputError& e) {
      check_refusal(e);
    }
  }
}

}  // namespace

void import(std::string_view text) {
  import_as(text, import_kinds());
}

void import_some(std::string_view text) {
  const std::span<const std::string_view> kinds = import_kinds();
  const std::array<std::string_view, 2> some{"auto", kinds[text.size() % kinds.size()]};
  import_as(text, some);
}

}  // namespace stepcast::fuzz
