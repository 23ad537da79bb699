// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/run_record.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "sim/diagnostic.h"

namespace stepcast::accuracy {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void cannot_read(const std::string& path) {
  Diagnostic d;
  d.code = "E101";
  d.message = "cannot read " + path;
  throw InputError(std::move(d), 7);
}

bool is_record_file(const fs::path& path) {
  return path.extension() == ".yaml" || path.extension() == ".yml" || path.extension() == ".json";
}

std::vector<std::string> files_of(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error))
    if (entry.is_regular_file() && is_record_file(entry.path()))
      files.push_back(entry.path().string());
  if (error) cannot_read(path);
  std::sort(files.begin(), files.end());
  return files;
}

RunRecord record_of(Value value, const std::string& source, Problems& problems) {
  RunRecord r;
  r.source = source;
  r.id = text_at(value, "id");
  r.group = text_at(value, "group");
  if (r.id.empty()) problems.add("E126", "a record needs an id", value.mark);
  for (const char* section : {"hardware", "model", "parallelism", "batch", "measured"}) {
    const Value* v = value.find(section);
    if (v == nullptr || !v->is_mapping())
      problems.add("E126", "record '" + r.id + "' needs '" + section + "'", value.mark);
  }
  r.value = std::move(value);
  return r;
}

}  // namespace

std::vector<RunRecord> parse_run_records(const std::string& text, const std::string& name) {
  Problems problems;
  const uint32_t source = problems.add_source({name, text});
  Value root = parse_yaml(problems, source);
  problems.throw_if_any();
  Value* list = root.find("records");
  if (list == nullptr || list->kind != Value::Kind::sequence) {
    problems.add("E126", "there is no list 'records' in the file", root.mark);
    problems.throw_if_any();
  }
  const std::string stem = fs::path(name).stem().string();
  std::vector<RunRecord> records;
  std::set<std::string> ids;
  for (Value& item : list->items) {
    const Mark mark = item.mark;
    records.push_back(record_of(std::move(item), stem, problems));
    const std::string& id = records.back().id;
    if (!id.empty() && !ids.insert(id).second)
      problems.add("E103", "two records have the id '" + id + '\'', mark);
  }
  problems.throw_if_any();
  return records;
}

std::vector<RunRecord> read_run_records(const std::vector<std::string>& paths) {
  std::vector<RunRecord> all;
  for (const std::string& path : paths) {
    for (const std::string& file : files_of(path)) {
      std::ifstream in(file, std::ios::binary);
      if (!in) cannot_read(file);
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      std::vector<RunRecord> records = parse_run_records(text, file);
      std::move(records.begin(), records.end(), std::back_inserter(all));
    }
  }
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
  const std::string text = text_at(record, path);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return {};
  return number;
}

std::optional<int64_t> whole_at(const Value& record, std::string_view path) {
  const std::string text = text_at(record, path);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return {};
  return number;
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

}  // namespace stepcast::accuracy
