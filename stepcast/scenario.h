// SPDX-License-Identifier: Apache-2.0
// Public.  A scenario: a file that says what is trained where and how, with every default filled
// in.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace stepcast {

struct Scenario;  // internal

struct LoadSettings {
  // Values on top of those of the file, in order: dotted path and YAML text, as
  // {"parallel.tp", "4"}.  "null" takes a key away.
  std::vector<std::pair<std::string, std::string>> set;
  std::string compare_case;  // then what this case of the section `compare` changes; empty: none
  std::string root;          // files that the scenario names lie below; empty: its own folder
};

// One value of a scenario and why it has it.
struct ResolvedValue {
  std::string path;    // "parallel.dp"
  std::string value;   // "4", with its unit
  std::string origin;  // "run.yaml:3:12", "--set", "preset llama3-8b", "default: ..."
};

class LoadedScenario {
 public:
  // Reads, resolves and checks.  Throw InputError with all problems found (at most 20).
  static LoadedScenario from_file(const std::string& path, const LoadSettings& settings = {});
  // The same for text that is already in memory; `name` appears in messages.
  static LoadedScenario from_text(const std::string& text, const std::string& name,
                                  const LoadSettings& settings = {});

  const std::string& name() const;
  // 16 hex digits over all that the forecast depends on: equal ones are the same step.
  const std::string& hash() const;
  // What is odd but legal.
  const std::vector<std::string>& warnings() const;
  std::vector<ResolvedValue> values() const;
  // Cases of the section `compare`, for LoadSettings::compare_case.
  std::vector<std::string> compare_cases() const;

  // For the library.
  const Scenario& resolved() const { return *scenario_; }

 private:
  explicit LoadedScenario(Scenario scenario);

  std::shared_ptr<const Scenario> scenario_;
};

}  // namespace stepcast
