// SPDX-License-Identifier: Apache-2.0
#include "calibrate/runs/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "scenarios/document/files.h"
#include "sim/diagnostic.h"
#include "sim/text.h"

namespace stepcast {
namespace {

namespace fs = std::filesystem;

InputError unreadable(std::string message) {
  return file_error("E101", std::move(message), {});
}

bool is_record_file(const fs::path& path) {
  return path.extension() == ".yaml" || path.extension() == ".yml" || path.extension() == ".json";
}

// Of a path that is a file or a folder.  Throws InputError E101.
std::vector<std::string> files_of(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error))
    if (entry.is_regular_file() && is_record_file(entry.path()))
      files.push_back(entry.path().string());
  if (error) throw unreadable(fmt::format("cannot read the folder {}", path));
  if (files.empty())
    throw unreadable(fmt::format("there is no *.yaml, *.yml or *.json in the folder {}", path));
  std::sort(files.begin(), files.end());
  return files;
}

// What is wrong with a record; "" = nothing.
std::string problem_of(const RunRecord& record) {
  if (record.id.empty()) return "a record needs an id";
  for (const char* section : {"hardware", "model", "parallelism", "batch", "measured"}) {
    const Value* v = record.value.find(section);
    if (v == nullptr || !v->is_mapping())
      return fmt::format("record '{}' needs a mapping '{}'", record.id, section);
  }
  return "";
}

// A record whose id another file had before is none.
void tell_ids_apart(const std::vector<std::string>& files, std::vector<RunRecord>& records) {
  std::map<std::string, size_t> first;
  for (size_t i = 0; i < records.size(); ++i) {
    RunRecord& r = records[i];
    if (!r.problem.empty()) continue;
    const auto [at, is_new] = first.emplace(r.id, i);
    if (!is_new)
      r.problem = fmt::format("{}:{}:{}: E126 the id '{}' is that of a record of {}", files[i],
                              r.value.mark.line, r.value.mark.column, r.id, files[at->second]);
  }
}

// Files of equal names are sources of their own: by their folders, or else by their paths.
void tell_sources_apart(const std::vector<std::string>& files, std::vector<RunRecord>& records) {
  const auto in_folder = [](const std::string& file) {
    const fs::path path(file);
    return (path.parent_path().filename() / path.stem()).generic_string();
  };
  std::map<std::string, std::set<std::string>> by_name, by_folder;
  for (size_t i = 0; i < records.size(); ++i) {
    by_name[records[i].source].insert(files[i]);
    by_folder[in_folder(files[i])].insert(files[i]);
  }
  for (size_t i = 0; i < records.size(); ++i) {
    if (by_name[records[i].source].size() == 1) continue;
    const std::string name = in_folder(files[i]);
    records[i].source = by_folder[name].size() == 1 ? name : files[i];
  }
}

}  // namespace

std::string read_text_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad()) throw unreadable(fmt::format("cannot read {}", path));
  return text;
}

std::vector<RunRecord> parse_run_records(const std::string& text, const std::string& name) {
  Problems problems;
  const SourceRef source = problems.add_source({name, text});
  Value root = parse_yaml(problems, source);
  problems.throw_if_any();
  Value* list = root.find("records");
  if (list == nullptr || list->kind != Value::Kind::sequence)
    problems.add("E126", "there is no list 'records' in the file", root.mark);
  problems.throw_if_any();
  const std::string stem = fs::path(name).stem().string();
  std::vector<RunRecord> records;
  std::set<std::string> ids;
  for (Value& item : list->items) {
    const std::string line = fmt::format("{}:{}", name, item.mark.line);
    RunRecord r;
    r.source = stem;
    r.id = text_at(item, "id");
    r.group = text_at(item, "group");
    r.value = std::move(item);
    std::string problem = problem_of(r);
    if (problem.empty() && !ids.insert(r.id).second)
      problem = fmt::format("two records have the id '{}'", r.id);
    if (!problem.empty())
      r.problem = fmt::format("{}:{}: E126 {}", line, r.value.mark.column, problem);
    if (r.id.empty()) r.id = fs::path(line).filename().string();
    records.push_back(std::move(r));
  }
  return records;
}

RunRecords read_run_records(const std::vector<std::string>& paths) {
  RunRecords all;
  std::vector<std::string> files;  // of the records
  std::set<std::string> seen;
  const auto attempt = [&](const auto& read) {
    try {
      read();
    } catch (const InputError& e) {
      all.problems.push_back(e.what());
    }
  };
  for (const std::string& path : paths) {
    attempt([&] {
      for (const std::string& file : files_of(path)) {
        std::error_code error;
        if (!seen.insert(fs::weakly_canonical(file, error).string()).second) continue;
        attempt([&] {
          std::vector<RunRecord> records = parse_run_records(read_text_file(file), file);
          files.insert(files.end(), records.size(), file);
          std::move(records.begin(), records.end(), std::back_inserter(all.records));
        });
      }
    });
  }
  tell_ids_apart(files, all.records);
  tell_sources_apart(files, all.records);
  return all;
}

const Value* find_at(const Value& record, std::string_view path) {
  const Value* at = &record;
  while (at != nullptr && !path.empty()) {
    const size_t dot = path.find('.');
    at = at->find(path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
  }
  return at == nullptr || at->kind == Value::Kind::null ? nullptr : at;
}

std::string text_at(const Value& record, std::string_view path) {
  const Value* v = find_at(record, path);
  return v != nullptr && v->is_scalar() ? v->text : "";
}

std::optional<double> number_at(const Value& record, std::string_view path) {
  return parse_number<double>(text_at(record, path));
}

std::optional<int64_t> whole_at(const Value& record, std::string_view path) {
  return parse_number<int64_t>(text_at(record, path));
}

bool true_at(const Value& record, std::string_view path) {
  const std::string text = text_at(record, path);
  return text == "true" || text == "True";
}

std::optional<int64_t> leading_whole(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return {};
  const std::string_view rest = text.substr(static_cast<size_t>(end - text.data()));
  if (rest.starts_with("k") || rest.starts_with("K")) return number * 1000;
  if (!rest.empty() && rest.front() == '.') return {};
  return number;
}

}  // namespace stepcast
