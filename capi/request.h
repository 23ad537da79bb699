// SPDX-License-Identifier: Apache-2.0
// A request in JSON, read strictly: what is not there is not given, and a key that nobody asked for
// is an error.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "scenarios/scenario_document.h"

namespace stepcast::capi {

class Request {
 public:
  // Throws InputError E003 if `text` is no JSON object in UTF-8.
  explicit Request(const char* text);
  ~Request();
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  // Throw InputError E004 for a value of another kind.
  bool has(const char* key);
  std::string text(const char* key);  // "" if it is not given
  bool flag(const char* key, bool otherwise);
  std::optional<int64_t> count(const char* key, int64_t least);
  std::vector<int64_t> counts(const char* key, int64_t least);
  std::optional<double> above_zero(const char* key);  // and finite
  std::vector<std::string> texts(const char* key);
  std::vector<std::pair<std::string, std::string>> pairs(const char* key);
  // Calls `read` with each object of a list.
  void each(const char* key, const std::function<void(Request&)>& read);

  // Throws InputError E003 if there is a key that was not asked for.
  void check_all_read() const;

 private:
  explicit Request(const nlohmann::json& object);
  const nlohmann::json* find(const char* key);

  std::unique_ptr<const nlohmann::json> own_;  // of the request itself
  const nlohmann::json* json_;                 // that, or an object in it
  std::set<std::string, std::less<>> read_;
};

// Reads what a file of another tool names beside itself, as it comes up.
std::function<std::optional<std::string>(std::string_view)> files_beside(const std::string& path);

// "file", or "text" with "name"; "root" and "set".  A config.json is imported, where "set" says the
// run.
ScenarioDocument read_scenario(Request& request);

// Threads: "jobs"; without it one for each core.
int jobs_of(Request& request);

// Throws an InputError of one diagnostic without a place.
[[noreturn]] void request_error(std::string code, std::string message, std::string help = {});

}  // namespace stepcast::capi
