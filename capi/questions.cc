// SPDX-License-Identifier: Apache-2.0
// size, presets and import: what is asked before, or instead of, a forecast.
#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "capi/answer.h"
#include "report/text/size.h"
#include "scenarios/document/config_folder.h"
#include "scenarios/document/files.h"
#include "scenarios/document/number.h"
#include "scenarios/forecast/size.h"
#include "scenarios/frameworks/import_run.h"
#include "sim/text.h"
#include "stepcast/import_json.h"
#include "stepcast/preset_list.h"

namespace stepcast::capi {
namespace {

// A quantity as scenarios write it; nothing if it is not given.
template <class Read>
auto quantity(Request& request, const char* key, Read read)
    -> decltype(read(Value{}, key, std::declval<Problems&>())) {
  if (!request.has(key)) return {};
  Problems problems;
  const Value written = parse_yaml(problems, problems.add_source({key, request.text(key)}));
  const auto found = read(written, key, problems);
  problems.throw_if_any();
  return found;
}

void check_word(const char* key, const std::string& word, std::span<const std::string_view> legal) {
  if (word.empty() || std::ranges::find(legal, word) != legal.end()) return;
  const std::string near = did_you_mean(word, legal);
  request_error("E004", std::string("there is no ") + key + " '" + word + "'",
                (near.empty() ? "" : near + ' ') + "legal: " + join(legal));
}

// Throws InputError if it cannot be read.
std::string text_of_file(const std::string& path) {
  Problems problems;
  const SourceRef source = ScenarioFiles(problems, {}).open_first(path);
  problems.throw_if_any();
  return source->text;
}

}  // namespace

stepcast_answer size(Request& request) {
  SizeOptions options;
  options.load.set = request.pairs("set");
  options.load.root = request.text("root");
  options.gpu = request.text("gpu");
  options.search = request.flag("search", true);
  options.tokens = static_cast<double>(quantity(request, "tokens", read_tokens).value_or(0));
  options.mfu = quantity(request, "mfu", read_share);
  if (options.mfu && *options.mfu <= 0)
    request_error("E004", "'mfu' of the request is no utilization", "for example: 40%");
  if (options.mfu && options.tokens == 0)
    request_error("E003", "'mfu' is for GPU-days, and 'tokens' says of how many tokens",
                  "for example: 15T");
  std::string model = config_in(request.text("model"));
  std::optional<std::string> text;
  if (request.has("text")) {
    text = request.text("text");
    model = request.text("name");
  }
  request.check_all_read();
  const auto found = std::make_shared<const ModelSize>(size_model(model, text, options));
  stepcast_answer answer;
  answer.bytes = size_json(*found, STEPCAST_VERSION);
  answer.forms.emplace_back("text", [found](Request& r) {
    r.check_all_read();
    return size_text(*found);
  });
  return answer;
}

stepcast_answer presets(Request& request) {
  const std::string kind = request.text("kind"), show = request.text("show");
  request.check_all_read();
  check_word("kind of presets", kind, preset_kinds());
  const std::vector<PresetList> lists = preset_lists(kind);
  return {0, show.empty() ? presets_json(lists) : preset_json(find_preset(show, lists)), {}};
}

stepcast_answer import_run_file(Request& request) {
  ImportRequest asked;
  asked.kind = request.text("kind");
  asked.file = request.text("file");
  if (request.has("text")) {
    asked.text = request.text("text");
  } else {  // a folder stands for its config.json
    asked.file = config_in(asked.file);
    asked.text = text_of_file(asked.file);
    asked.folder = folder_of(asked.file);
    asked.files = files_beside(asked.file);
  }
  asked.model_file = request.text("model_file");
  if (request.has("model_text")) {
    asked.model_text = request.text("model_text");
  } else if (!asked.model_file.empty()) {
    asked.model_file = config_in(asked.model_file);
    asked.model_text = text_of_file(asked.model_file);
  }
  if (const std::string preset = request.text("preset"); !preset.empty()) {
    asked.cluster.preset = preset;
    asked.cluster.assumed = false;
  }
  asked.cluster.gpu = request.text("gpu");
  asked.set = request.pairs("set");
  request.check_all_read();
  if (asked.kind.empty()) request_error("E003", "the request has no 'kind'");
  if (asked.kind != "auto") check_word("import of", asked.kind, import_kinds());
  return {0, import_json(import_run(asked)), {}};
}

}  // namespace stepcast::capi
