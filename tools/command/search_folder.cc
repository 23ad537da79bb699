// SPDX-License-Identifier: Apache-2.0
#include "tools/command/search_folder.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "report/text/search.h"
#include "scenarios/frameworks/megatron/export.h"
#include "scenarios/frameworks/megatron/export_layout.h"
#include "sim/system_error.h"
#include "tools/command/output.h"

namespace stepcast::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 2> kTables{"funnel.json", "results.csv"};
constexpr std::array<std::string_view, 4> kOfALayout{".yaml", ".megatron-args", ".torchtitan.toml",
                                                     ".nemo-overrides"};

// "top01.yaml", "next12.megatron-args": a layout of some search.
bool is_of_a_layout(const std::string& name) {
  const size_t begin = name.starts_with("top") ? 3 : name.starts_with("next") ? 4 : 0;
  const size_t end = name.find_first_not_of("0123456789", begin);
  if (begin == 0 || end == begin || end == std::string::npos) return false;
  const std::string_view rest = std::string_view(name).substr(end);
  return std::ranges::count(kOfALayout, rest) > 0;
}

std::vector<std::string> layouts_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (is_of_a_layout(at->path().filename().string()))
      names.push_back(at->path().filename().string());
  return names;
}

// The folder that has both.
fs::path common_folder(const fs::path& a, const fs::path& b) {
  fs::path common;
  auto i = a.begin();
  for (auto j = b.begin(); i != a.end() && j != b.end() && *i == *j; ++i, ++j) common /= *i;
  return common;
}

// A scenario as a file of that folder: a line for each of its sections.
std::string scenario_text(const ScenarioDocument& written, const FoundLayout& l,
                          const std::string& file, const std::string& what,
                          const fs::path& folder) {
  ScenarioDocument document = written;
  fs::path root = folder;
  for (const std::string& named : document.move_to(folder.string()))
    root = common_folder(root, named);
  std::string text = fmt::format("# The layout that `stepcast search {}` {}: {:.6g} s a step.\n",
                                 escape_text(file), what, to_seconds(l.step_time));
  if (root != folder)
    text += fmt::format("# It names files outside this folder: stepcast run --root {}\n",
                        escape_text(root.lexically_relative(fs::current_path()).string()));
  for (const Member& m : document.tree().members)
    text += to_flow(scalar_value(m.key)) + ": " + to_flow(m.value) + '\n';
  return text;
}

}  // namespace

bool is_of_search_folder(const std::string& name) {
  return is_of_a_layout(name) || std::ranges::count(kTables, name) > 0;
}

SearchFolder::SearchFolder(std::string path, bool force) : path_(std::move(path)) {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error)
    throw file_error("E502", "cannot make '" + path_ + "': " + system_error_text(error.value()),
                     path_);
  if (::access(path_.c_str(), W_OK | X_OK) != 0)
    throw file_error("E502", "cannot write to '" + path_ + "': " + system_error_text(errno), path_);
  if (force) return;
  std::vector<std::string> there = layouts_in(path_);
  for (const std::string_view name : kTables)
    if (fs::exists(fs::path(path_) / name, error)) there.emplace_back(name);
  if (!there.empty())
    throw file_error("E501", "'" + path_ + "' has the answer of a search already", path_,
                     "--force replaces it");
}

void SearchFolder::write_file(const std::string& name, const std::string& text) const {
  OutputFile file((fs::path(path_) / name).string(), true);
  file.write(text);
  file.commit();
}

void SearchFolder::write(const SearchAnswer& answer) const {
  std::error_code error;
  for (const std::string& name : layouts_in(path_)) fs::remove(fs::path(path_) / name, error);
  write_file("funnel.json", funnel_json(answer.result));
  write_file("results.csv", search_csv(answer.result));
  const fs::path folder = fs::weakly_canonical(fs::absolute(path_));
  const auto write_layouts = [&](const char* name, const char* what,
                                 const std::vector<FoundLayout>& layouts,
                                 const std::vector<ScenarioDocument>& documents) {
    for (size_t i = 0; i < documents.size(); ++i) {
      const std::string file = fmt::format("{}{:02}", name, i + 1);
      write_file(file + ".yaml", scenario_text(documents[i], layouts[i], answer.result.file,
                                               fmt::format("{} {}", what, i + 1), folder));
      auto resolved = documents[i].try_resolve();
      const Scenario* scenario = std::get_if<Scenario>(&resolved);
      if (scenario == nullptr) continue;
      write_file(file + ".megatron-args", export_megatron(*scenario).text);
      if (const auto text = torchtitan_layout(*scenario))
        write_file(file + ".torchtitan.toml", *text);
      if (const auto text = nemo_overrides(*scenario)) write_file(file + ".nemo-overrides", *text);
    }
  };
  write_layouts("top", "ranked", answer.result.best, answer.documents);
  write_layouts("next", "names to be measured as number", answer.result.next, answer.next);
}

}  // namespace stepcast::cli
