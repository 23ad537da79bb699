// SPDX-License-Identifier: Apache-2.0
// A scenario as it is written, before it is resolved: its file, what that extends and what is set
// on top of it, as one tree of values that know their places.  Read once, copies of it can be
// changed and resolved many times.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "scenarios/document/files.h"
#include "scenarios/document/value.h"
#include "scenarios/scenario.h"
#include "sim/diagnostic.h"

namespace stepcast {

class ScenarioDocument {
 public:
  // `root`: as LoadOptions::root.  Throw InputError for what cannot be read to its end.
  static ScenarioDocument of_file(const std::string& path, const std::string& root);
  // The text is called `name` in messages, and what it names is relative to the folder of `path`.
  static ScenarioDocument of_text(std::string text, const std::string& name,
                                  const std::string& root, const std::string& path);
  static ScenarioDocument of_text(std::string text, const std::string& name,
                                  const std::string& root);
  ScenarioDocument(const ScenarioDocument& other);
  ScenarioDocument& operator=(const ScenarioDocument&) = delete;

  // As written: presets are names in it.
  const Value& tree() const { return tree_; }
  // What has been found wrong so far.
  const Problems& problems() const { return problems_; }

  // Puts a value at a dotted path: a mapping merges into what is there, null deletes a key.
  // resolve() reports what is wrong with it, in the place that the value has, and its key if the
  // path is written there; what it names is seen from the root all the same.
  void set(const std::string& path, Value value, const Mark& key = {});
  // What whoever made the text assumed: first among the warnings of the scenario.
  void warn(std::vector<std::string> warnings) { warnings_ = std::move(warnings); }
  // The text was made of a file of another tool, which a command imports again.
  void mark_imported() { imported_ = true; }
  // What a command sets, dotted paths and YAML, to have this document again but for its layout:
  // `given`, and of an import the batch that was made: with another layout it would make another.
  std::vector<std::pair<std::string, std::string>> sets_again(
      std::vector<std::pair<std::string, std::string>> given) const;
  // What a command line sets, then what the compare case changes that it names.
  void set(const LoadOptions& options);

  // Gives the files that the tree names (a config.json, a cost table, a trace of routing) other
  // names: what `name` makes of their absolute ones.
  void rename_files(const std::function<std::string(const std::string& absolute)>& name);
  // The files that the scenario is made of, absolute: its own, those that it extends, those that
  // rename_files() names, and what its cases and axes name.
  std::vector<std::string> files() const;

  // The scenario that the tree describes, or all problems found (at most 20).
  std::variant<Scenario, InputError> try_resolve() const&;
  std::variant<Scenario, InputError> try_resolve() &&;
  // The same, with Scenario::with_older_software; throws the problems.
  Scenario resolve() const&;
  Scenario resolve() &&;

 private:
  explicit ScenarioDocument(const std::string& root) : files_(problems_, root) {}
  void read(SourceRef first);

  Problems problems_;
  ScenarioFiles files_;
  SourceRef first_;  // the file itself
  Value tree_;
  std::vector<std::string> warnings_;
  bool imported_ = false;
};

// Values for ScenarioDocument::set() that are written nowhere.
Value scalar_value(std::string text);
Value mapping_value(const std::vector<std::pair<std::string, std::string>>& members);

}  // namespace stepcast
