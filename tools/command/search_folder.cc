// SPDX-License-Identifier: Apache-2.0
#include "tools/command/search_folder.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
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
// Which files of layouts are not there, and why.
constexpr std::string_view kLeftOut = "left_out.txt";
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

// Where what the scenarios name and lies outside the folder is copied to.
constexpr std::string_view kNamedFiles = "named_files";

// Copies of files that scenarios of a folder name, so that they run wherever the folder goes.
class NamedFiles {
 public:
  explicit NamedFiles(fs::path folder) : folder_(std::move(folder)) {}

  // The name of a file, seen from the folder; one that lies outside is copied into it, beside what
  // is there already.
  std::string name_of(const std::string& file) {
    const fs::path relative = fs::path(file).lexically_relative(folder_);
    if (!relative.empty() && *relative.begin() != "..") return relative.string();
    const auto [known, is_new] = names_.try_emplace(file);
    if (is_new) known->second = copy(file);
    return known->second;
  }

 private:
  std::string copy(const std::string& file) const {
    const std::string text = read_whole_file(file);
    const std::string name = fs::path(file).filename().string();
    std::error_code error;
    fs::create_directories(folder_ / kNamedFiles, error);
    for (int i = 1;; ++i) {
      const fs::path at = fs::path(kNamedFiles) / (i == 1 ? name : fmt::format("{}-{}", i, name));
      const fs::path place = folder_ / at;
      if (fs::exists(place, error)) {
        if (fs::is_regular_file(place, error) && read_whole_file(place.string()) == text)
          return at.string();
        continue;
      }
      OutputFile copied(place.string(), false);
      copied.write(text);
      copied.commit();
      return at.string();
    }
  }

  fs::path folder_;
  std::map<std::string, std::string> names_;
};

// A scenario as a file of the folder: a line for each of its sections.
std::string scenario_text(const ScenarioDocument& written, const FoundLayout& l,
                          const std::string& search, const std::string& what, NamedFiles& files) {
  ScenarioDocument document = written;
  document.rename_files([&](const std::string& absolute) { return files.name_of(absolute); });
  std::string text = fmt::format("# The layout that {} {}: {:.6g} s a step.\n", search, what,
                                 to_seconds(l.step_time));
  for (const Member& m : document.tree().members)
    text += to_flow(scalar_value(m.key)) + ": " + to_flow(m.value) + '\n';
  return text;
}

}  // namespace

bool is_of_search_folder(const std::string& name) {
  return is_of_a_layout(name) || name == kLeftOut || std::ranges::count(kTables, name) > 0;
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

void SearchFolder::write(const SearchAnswer& answer, const std::string& search) const {
  std::error_code error;
  for (const std::string& name : layouts_in(path_)) fs::remove(fs::path(path_) / name, error);
  fs::remove(fs::path(path_) / kLeftOut, error);
  std::string left_out;
  write_file("funnel.json", funnel_json(answer.result));
  write_file("results.csv", search_csv(answer.result));
  NamedFiles files(fs::weakly_canonical(fs::absolute(path_)));
  const auto write_layouts = [&](const char* name, const char* what,
                                 const std::vector<FoundLayout>& layouts,
                                 const std::vector<ScenarioDocument>& documents) {
    for (size_t i = 0; i < documents.size(); ++i) {
      const std::string file = fmt::format("{}{:02}", name, i + 1);
      write_file(file + ".yaml", scenario_text(documents[i], layouts[i], search,
                                               fmt::format("{} {}", what, i + 1), files));
      auto resolved = documents[i].try_resolve();
      const Scenario* scenario = std::get_if<Scenario>(&resolved);
      if (scenario == nullptr) continue;
      const auto write_or_say = [&](const char* end, const std::optional<std::string>& text,
                                    const std::string& why) {
        if (text) return write_file(file + end, *text);
        left_out += file + end + ": " + why + '\n';
      };
      const std::string no_megatron = why_not_megatron(*scenario);
      write_or_say(
          ".megatron-args",
          no_megatron.empty() ? std::optional(export_megatron(*scenario).text) : std::nullopt,
          no_megatron);
      write_or_say(".torchtitan.toml", torchtitan_layout(*scenario), why_not_torchtitan(*scenario));
      write_or_say(".nemo-overrides", nemo_overrides(*scenario), why_not_nemo(*scenario));
    }
  };
  write_layouts("top", "ranked", answer.result.best, answer.documents);
  write_layouts("next", "names to be measured as number", answer.result.next, answer.next);
  if (!left_out.empty()) write_file(std::string(kLeftOut), left_out);
}

}  // namespace stepcast::cli
