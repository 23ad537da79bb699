// SPDX-License-Identifier: Apache-2.0
#include "capi/request.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <span>
#include <thread>

#include <nlohmann/json.hpp>

#include "scenarios/document/config_folder.h"
#include "scenarios/document/files.h"
#include "scenarios/frameworks/import_run.h"
#include "sim/diagnostic.h"
#include "sim/text.h"

namespace stepcast::capi {
namespace {

[[noreturn]] void wrong_kind(const char* key, const char* kind) {
  request_error("E004", std::string("'") + key + "' of the request is no " + kind);
}

std::string text_of(const nlohmann::json& value, const char* key) {
  if (!value.is_string()) wrong_kind(key, "text");
  return value.get<std::string>();
}

}  // namespace

Request::Request(const char* text) {
  nlohmann::json parsed =
      nlohmann::json::parse(text != nullptr ? text : "", nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object())
    request_error("E003", "the request is no JSON object", "for example: {\"file\": \"my.yaml\"}");
  own_ = std::make_unique<const nlohmann::json>(std::move(parsed));
  json_ = own_.get();
}

Request::Request(const nlohmann::json& object) : json_(&object) {}

Request::~Request() = default;

const nlohmann::json* Request::find(const char* key) {
  read_.insert(key);
  const auto found = json_->find(key);
  return found == json_->end() || found->is_null() ? nullptr : &*found;
}

bool Request::has(const char* key) {
  return find(key) != nullptr;
}

std::string Request::text(const char* key) {
  const nlohmann::json* value = find(key);
  return value != nullptr ? text_of(*value, key) : "";
}

bool Request::flag(const char* key, bool otherwise) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) wrong_kind(key, "true or false");
  return value->get<bool>();
}

namespace {

int64_t count_of(const nlohmann::json& value, const char* key, int64_t least) {
  // What is larger than 64 bits reads as another kind.
  if (!value.is_number_integer() || value < least || value > INT64_MAX)
    request_error("E004", std::string("'") + key +
                              "' of the request is no whole number of at least " +
                              std::to_string(least));
  return value.get<int64_t>();
}

}  // namespace

std::optional<int64_t> Request::count(const char* key, int64_t least) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return {};
  return count_of(*value, key, least);
}

std::vector<int64_t> Request::counts(const char* key, int64_t least) {
  std::vector<int64_t> all;
  const nlohmann::json* value = find(key);
  if (value == nullptr) return all;
  if (!value->is_array()) wrong_kind(key, "list of numbers");
  for (const nlohmann::json& item : *value) all.push_back(count_of(item, key, least));
  return all;
}

std::optional<double> Request::above_zero(const char* key) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return {};
  if (!value->is_number() || !(value->get<double>() > 0))
    request_error("E004", std::string("'") + key + "' of the request is no number above 0");
  return value->get<double>();
}

std::vector<std::string> Request::texts(const char* key) {
  std::vector<std::string> all;
  const nlohmann::json* value = find(key);
  if (value == nullptr) return all;
  if (!value->is_array()) wrong_kind(key, "list of texts");
  for (const nlohmann::json& item : *value) all.push_back(text_of(item, key));
  return all;
}

std::vector<std::pair<std::string, std::string>> Request::pairs(const char* key) {
  std::vector<std::pair<std::string, std::string>> all;
  const nlohmann::json* value = find(key);
  if (value == nullptr) return all;
  if (!value->is_array()) wrong_kind(key, "list of pairs");
  for (const nlohmann::json& item : *value) {
    if (!item.is_array() || item.size() != 2) wrong_kind(key, "list of pairs");
    all.emplace_back(text_of(item[0], key), text_of(item[1], key));
  }
  return all;
}

void Request::each(const char* key, const std::function<void(Request&)>& read) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_array()) wrong_kind(key, "list of objects");
  for (const nlohmann::json& item : *value) {
    if (!item.is_object()) wrong_kind(key, "list of objects");
    Request inner(item);
    read(inner);
    inner.check_all_read();
  }
}

void Request::check_all_read() const {
  for (const auto& [key, value] : json_->items()) {
    if (read_.contains(key)) continue;
    std::vector<std::string_view> known(read_.begin(), read_.end());
    request_error("E003", "the request has no key '" + key + "'", did_you_mean(key, known));
  }
}

std::function<std::optional<std::string>(std::string_view)> files_beside(const std::string& path) {
  return [folder = std::filesystem::path(path).parent_path()](
             std::string_view name) -> std::optional<std::string> {
    constexpr std::uintmax_t kLargest = 1 << 20;
    const std::filesystem::path file = folder / name;
    std::error_code none;
    if (std::filesystem::path(name).is_absolute() ||
        !std::filesystem::is_regular_file(file, none) ||
        std::filesystem::file_size(file, none) > kLargest || none)
      return {};
    Problems unread;
    const SourceRef source = ScenarioFiles(unread, {}).open_first(file.string());
    return source != nullptr ? std::optional(source->text) : std::nullopt;
  };
}

namespace {

// A file of another tool as a scenario, as the command imports it: a config.json only where the
// request says the run beside it.  Nothing for scenarios.
std::optional<ScenarioDocument> imported_scenario(
    const std::string& file, const std::string& root,
    std::span<const std::pair<std::string, std::string>> set) {
  if (file.empty()) return {};
  Problems unread;  // dropped: what cannot be read is reported when the file is read as a scenario
  ScenarioFiles files(unread, root);
  const SourceRef source = files.open_first(file);
  if (source == nullptr) return {};
  ImportRequest asked;
  asked.kind = kind_of_file(source->text);
  if (asked.kind.empty() || (asked.kind == "hf" && !says_the_run(set))) return {};
  asked.file = file;
  asked.text = source->text;
  asked.folder = folder_of(file);
  asked.files = files_beside(file);
  asked.set.assign(set.begin(), set.end());
  ImportedRun run = import_run(asked);
  ScenarioDocument document =
      ScenarioDocument::of_text(std::move(run.scenario), "imported from " + file, root, file);
  for (const UnknownPlace& u : run.unknown)
    run.notes.push_back("unknown key '" + u.name + "': whether it changes the cost is not known");
  document.warn(std::move(run.notes));
  document.mark_imported();
  return document;
}

}  // namespace

ScenarioDocument read_scenario(Request& request) {
  const std::string root = request.text("root");
  const std::string file = config_in(request.text("file"));
  const std::string name = request.text("name");
  const std::string path = request.text("path");  // what a text names is seen from its folder
  if (request.has("text") == !file.empty())
    request_error("E003", "the request names no scenario, or two",
                  "it has a \"file\", or a \"text\" with a \"name\"");
  LoadOptions options;
  options.set = request.pairs("set");
  if (auto imported = imported_scenario(file, root, options.set)) return *imported;
  const std::string shown = name.empty() ? "<text>" : name;
  ScenarioDocument document = file.empty()
                                  ? ScenarioDocument::of_text(request.text("text"), shown, root,
                                                              path.empty() ? shown : path)
                                  : ScenarioDocument::of_file(file, root);
  document.set(options);
  return document;
}

void request_error(std::string code, std::string message, std::string help) {
  throw file_error(std::move(code), std::move(message), {}, std::move(help));
}

int jobs_of(Request& request) {
  // Each thread has caches of its own; more than this serve no machine.
  constexpr int64_t kMostThreads = 256;
  const auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  return static_cast<int>(
      std::clamp<int64_t>(request.count("jobs", 1).value_or(cores), 1, kMostThreads));
}

}  // namespace stepcast::capi
