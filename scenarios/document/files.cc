// SPDX-License-Identifier: Apache-2.0
#include "scenarios/document/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace stepcast {
namespace {

namespace fs = std::filesystem;

// Of a file, and of all files of a scenario together: what is read within seconds.
constexpr size_t kMostFileBytes = size_t{64} << 20;
constexpr size_t kMostBytesTogether = size_t{128} << 20;
constexpr size_t kMostExtends = 8;
constexpr int kMostFiles = 64;

struct FileText {
  std::optional<std::string> text;
  std::string why;       // it cannot be read
  bool special = false;  // it is a directory, device, pipe or socket
  size_t too_large = 0;  // bytes of a file that is larger than allowed
};

std::string reason(int error) {
  return std::error_code(error, std::generic_category()).message();
}

// Reads a regular file of at most kMostFileBytes.  Never waits: a pipe without a writer is refused
// like any other special file.
FileText read_regular(const std::string& path) {
  FileText result;
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) {
    result.why = reason(errno);
    return result;
  }
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    result.why = reason(errno);
  } else if (!S_ISREG(status.st_mode)) {
    result.special = true;
    result.why = S_ISDIR(status.st_mode) ? "it is a directory" : "it is not a regular file";
  } else {
    std::string text;
    constexpr size_t kChunk = 65536;
    ssize_t got = 1;
    while (got > 0 && text.size() <= kMostFileBytes) {
      const size_t old = text.size();
      text.resize(old + kChunk);
      do got = ::read(fd, text.data() + old, kChunk);
      while (got < 0 && errno == EINTR);
      text.resize(old + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    }
    if (got < 0) {
      result.why = reason(errno);
    } else if (text.size() > kMostFileBytes) {
      result.too_large = std::max(text.size(), static_cast<size_t>(status.st_size));
      result.why =
          fmt::format("it has {} bytes, more than {} MiB", result.too_large, kMostFileBytes >> 20);
    } else {
      result.text = std::move(text);
    }
  }
  ::close(fd);
  return result;
}

std::string real_path(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(fs::absolute(path, error), error);
  return (error ? path.lexically_normal() : real).string();
}

bool is_below(const std::string& path, const std::string& root) {
  const fs::path relative = fs::path(path).lexically_relative(root);
  return !relative.empty() && *relative.begin() != "..";
}

// The keys of Hugging Face's config.json, and none that a scenario must have.
bool is_config_json(const Value& file) {
  const auto has = [&](std::string_view key) { return file.find(key) != nullptr; };
  return (has("model_type") || has("num_hidden_layers") || has("hidden_size")) && !has("model") &&
         !has("cluster") && !has("batch") && !has("extends");
}

bool mentions_training(std::string_view line) {
  if (line.substr(0, line.find_first_not_of(" \t") + 1).ends_with('#')) return false;
  line = line.substr(0, line.find(" #"));
  return line.find("--num-layers") != line.npos || line.find("pretrain_") != line.npos;
}

// A shell script, or a command line of Megatron's: no mapping, or it would be a scenario.
bool is_script(const std::string& text) {
  std::string_view rest = text;
  const std::string_view first = rest.substr(0, rest.find('\n'));
  bool found = first.starts_with("#!") && first.find("sh") != first.npos;
  while (!found && !rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    found = mentions_training(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (!found) return false;
  Problems none;
  return !parse_yaml(none, none.add_source({{}, text, false})).is_mapping();
}

}  // namespace

ScenarioFiles::ScenarioFiles(Problems& problems, const std::string& root)
    : problems_(problems), root_(root.empty() ? root : real_path(root)) {}

ScenarioFiles::ScenarioFiles(const ScenarioFiles& other, Problems& problems)
    : problems_(problems),
      root_(other.root_),
      files_(other.files_),
      bytes_(other.bytes_),
      named_(other.named_),
      incomplete_(other.incomplete_) {}

SourceRef ScenarioFiles::add(std::string text, std::string name, std::string real) {
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);  // byte order mark
  bytes_ += text.size();
  SourceRef source =
      problems_.add_source({std::move(name), std::move(text), false, std::move(real)});
  files_[source->path] = source;
  return source;
}

SourceRef ScenarioFiles::add_first(std::string text, const std::string& name) {
  const std::string real = real_path(name.empty() ? "." : name);
  if (root_.empty()) root_ = fs::path(real).parent_path().string();
  return add(std::move(text), name, real);
}

SourceRef ScenarioFiles::open_first(const std::string& path) {
  FileText file = read_regular(path);
  if (file.text) return add_first(std::move(*file.text), path);
  const SourceRef source = problems_.add_source({path, {}, false});
  problems_.add(file.too_large > 0 ? "E106" : "E101",
                fmt::format("cannot read '{}': {}", path, file.why), Mark{source, 0, 0});
  if (file.too_large == 0) problems_.exit_status = 7;
  return {};
}

SourceRef ScenarioFiles::open(const std::string& path, const Mark& from) {
  const auto refuse = [&](const char* code, std::string message, std::string help = {}) {
    problems_.add(code, std::move(message), from, static_cast<int>(path.size()), {},
                  std::move(help));
    return SourceRef{};
  };
  // What --set names, or a preset, is relative to the root.
  const bool in_file = from.source != nullptr && !from.source->path.empty();
  const fs::path folder = in_file ? fs::path(from.source->path).parent_path() : fs::path(root_);
  const std::string real = real_path(folder / path);
  if (path.empty() || !is_below(real, root_))
    return refuse("E111", fmt::format("'{}' is outside the folder of the scenario", path),
                  "name a file below it, relative to the file this stands in, or a folder that has "
                  "both: --root DIR");
  if (++named_ > kMostFiles)
    return refuse("E111", fmt::format("a scenario names more than {} files", kMostFiles));
  if (const auto known = files_.find(real); known != files_.end()) return known->second;
  FileText file = read_regular(real);
  if (!file.text) {
    const char* code = file.too_large > 0 ? "E106" : file.special ? "E111" : "E101";
    return refuse(code, fmt::format("cannot read '{}': {}", path, file.why),
                  file.too_large > 0 ? "" : "paths are relative to the file they stand in");
  }
  if (bytes_ + file.text->size() > kMostBytesTogether)
    return refuse("E106",
                  fmt::format("the files of the scenario have {} bytes with '{}', more than {} MiB",
                              bytes_ + file.text->size(), path, kMostBytesTogether >> 20));
  const fs::path beside = fs::path(in_file ? from.source->name : "").parent_path();
  return add(std::move(*file.text), (beside / path).lexically_normal().string(), real);
}

std::string ScenarioFiles::shown(const Source& source) const {
  return fs::path(source.path).lexically_relative(root_).string();
}

Value ScenarioFiles::load(const SourceRef& source) {
  std::vector<SourceRef> stack;
  return load(source, stack);
}

bool ScenarioFiles::refuse_other_file(const SourceRef& source, const Value* parsed) {
  const Source& file = *source;
  const std::string name = file.name.starts_with('<') ? "FILE" : file.name;
  if (parsed != nullptr && is_config_json(*parsed))
    problems_.add("E107", "this is a config.json: it says what a model is, and nothing of a run",
                  parsed->mark, 1, {},
                  "`stepcast import hf " + name +
                      "` writes a scenario with it; in a scenario it is model: {hf: " + name + '}');
  else if (parsed == nullptr && is_script(file.text))
    problems_.add(
        "E107", "this is a script or a list of arguments, not a scenario", {source, 1, 1}, 1, {},
        "`stepcast import megatron-args " + name + "` writes the scenario of what it trains");
  else
    return false;
  incomplete_ = true;
  return true;
}

Value ScenarioFiles::load(const SourceRef& source, std::vector<SourceRef>& stack) {
  if (refuse_other_file(source, nullptr)) return {};
  Value own = parse_yaml(problems_, source);
  if (refuse_other_file(source, &own)) return {};
  Value whole;
  whole.kind = Value::Kind::mapping;
  whole.mark = Mark{source, 1, 1};
  if (own.kind == Value::Kind::null) {
    incomplete_ = incomplete_ || problems_.any();
    return whole;
  }
  if (!own.is_mapping()) {
    incomplete_ = true;
    problems_.add("E107", "a scenario must be a mapping of sections", own.mark, 1, {},
                  "such as model: llama3-8b; `stepcast schema` lists all keys");
    return whole;
  }
  stack.push_back(source);
  if (const Value* extends = own.find("extends"); extends != nullptr) {
    if (extends->is_scalar()) extend(whole, *extends, stack);
    if (extends->is_mapping())
      problems_.add("E107", "'extends' must be a file or a list of files", extends->mark);
    for (const Value& word : extends->items) extend(whole, word, stack);
  }
  stack.pop_back();
  std::erase_if(own.members, [](const Member& m) { return m.key == "extends"; });
  merge(whole, std::move(own));
  return whole;
}

void ScenarioFiles::extend(Value& base, const Value& word, std::vector<SourceRef>& stack) {
  if (!word.is_scalar()) {
    problems_.add("E107", "'extends' must be a file or a list of files", word.mark);
    return;
  }
  const int length = static_cast<int>(word.text.size());
  const SourceRef source = open(word.text, word.mark);
  if (source == nullptr) incomplete_ = true;
  if (source == nullptr) return;
  std::string cycle;
  for (const SourceRef& s : stack)
    if (!cycle.empty() || s == source) cycle += shown(*s) + " -> ";
  incomplete_ = incomplete_ || !cycle.empty() || stack.size() >= kMostExtends;
  if (!cycle.empty()) {
    problems_.add("E110", "'extends' forms a cycle", word.mark, length, {}, cycle + shown(*source));
  } else if (stack.size() >= kMostExtends) {
    problems_.add("E111", fmt::format("'extends' is more than {} files deep", kMostExtends),
                  word.mark, length);
  } else {
    const auto [known, first] = loaded_.try_emplace(source.get());
    if (first) known->second = load(source, stack);
    merge(base, known->second);
  }
}

}  // namespace stepcast
