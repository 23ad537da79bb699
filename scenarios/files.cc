// SPDX-License-Identifier: Apache-2.0
#include "scenarios/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "scenarios/tree.h"

namespace stepcast {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFileBytes = size_t{16} << 20;
constexpr size_t kMostExtends = 8;
constexpr int kMostFiles = 64;  // lists of lists would multiply

struct FileText {
  std::optional<std::string> text;
  std::string why;       // it cannot be read
  bool special = false;  // it is a directory, device, pipe or socket
};

std::string reason(int error) {
  return std::error_code(error, std::generic_category()).message();
}

// Reads a regular file, one byte beyond the limit at most.  Never waits: a pipe without a writer is
// refused like any other special file.
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
      real_paths_(other.real_paths_),
      opened_(other.opened_),
      incomplete_(other.incomplete_) {}

uint32_t ScenarioFiles::add(std::string text, std::string name, std::string real) {
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);  // byte order mark
  const uint32_t source = problems_.add_source({std::move(name), std::move(text), false});
  real_paths_.resize(source + 1);
  real_paths_[source] = std::move(real);
  return source;
}

uint32_t ScenarioFiles::add_first(std::string text, const std::string& name) {
  const std::string real = real_path(name.empty() ? "." : name);
  if (root_.empty()) root_ = fs::path(real).parent_path().string();
  return add(std::move(text), name, real);
}

std::optional<uint32_t> ScenarioFiles::open_first(const std::string& path) {
  FileText file = read_regular(path);
  if (!file.text) {
    const uint32_t source = problems_.add_source({path, {}, false});
    problems_.add("E101", "cannot read '" + path + "': " + file.why, Mark{source, 0, 0});
    problems_.exit_status = 7;
    return {};
  }
  return add_first(std::move(*file.text), path);
}

std::optional<uint32_t> ScenarioFiles::open(const std::string& path, const Mark& from) {
  const int length = static_cast<int>(path.size());
  const std::string& around = from.source < real_paths_.size() ? real_paths_[from.source] : root_;
  const fs::path folder =
      around.empty() || around == root_ ? fs::path(root_) : fs::path(around).parent_path();
  const std::string real = real_path(folder / path);
  if (path.empty() || !is_below(real, root_)) {
    problems_.add("E111", '\'' + path + "' is outside the folder of the scenario", from, length, {},
                  "name a file below it, relative to the file this stands in, or a folder that "
                  "has both: --root DIR");
    return {};
  }
  if (++opened_ > kMostFiles) {
    problems_.add("E111", "more than 64 files are read for one scenario", from, length);
    return {};
  }
  FileText file = read_regular(real);
  if (!file.text) {
    problems_.add(file.special ? "E111" : "E101", "cannot read '" + path + "': " + file.why, from,
                  length, {}, "paths are relative to the file they stand in");
    return {};
  }
  const fs::path beside =
      fs::path(from.source < real_paths_.size() ? problems_.source(from.source).name : "")
          .parent_path();
  return add(std::move(*file.text), (beside / path).lexically_normal().string(), real);
}

std::string ScenarioFiles::shown(uint32_t source) const {
  return fs::path(real_paths_[source]).lexically_relative(root_).string();
}

Value ScenarioFiles::load(uint32_t source) {
  std::vector<uint32_t> stack;
  return load(source, stack);
}

bool ScenarioFiles::refuse_other_file(uint32_t source, const Value* parsed) {
  const Source& file = problems_.source(source);
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

Value ScenarioFiles::load(uint32_t source, std::vector<uint32_t>& stack) {
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

void ScenarioFiles::extend(Value& base, const Value& word, std::vector<uint32_t>& stack) {
  if (!word.is_scalar()) {
    problems_.add("E107", "'extends' must be a file or a list of files", word.mark);
    return;
  }
  const int length = static_cast<int>(word.text.size());
  const std::optional<uint32_t> source = open(word.text, word.mark);
  if (!source) incomplete_ = true;
  if (!source) return;
  std::string way;
  bool circle = false;
  for (const uint32_t s : stack) {
    circle = circle || real_paths_[s] == real_paths_[*source];
    if (circle) way += shown(s) + " -> ";
  }
  incomplete_ = incomplete_ || circle || stack.size() >= kMostExtends;
  if (circle) {
    problems_.add("E110", "'extends' goes round in a circle", word.mark, length, {},
                  way + shown(*source));
  } else if (stack.size() >= kMostExtends) {
    problems_.add("E111", "'extends' is more than 8 files deep", word.mark, length);
  } else {
    merge(base, load(*source, stack));
  }
}

}  // namespace stepcast
