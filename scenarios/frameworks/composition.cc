// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/composition.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "scenarios/document/files.h"
#include "sim/text.h"

namespace stepcast {
namespace {

constexpr int kMostLevels = 8;     // files that name files
constexpr int kMostComposed = 64;  // of one configuration
constexpr size_t kMostText = size_t{4} << 20;
constexpr size_t kMostMissing = 64;  // that are named

// The mapping at "model.encoder", made where it is not there.
Value& mapping_at(Value& root, std::string_view path, const Mark& mark) {
  Value* at = &root;
  while (true) {
    if (!at->is_mapping()) {
      *at = {};
      at->kind = Value::Kind::mapping;
      at->mark = mark;
    }
    if (path.empty()) return *at;
    const std::string_view key = path.substr(0, path.find('.'));
    path.remove_prefix(std::min(key.size() + 1, path.size()));
    if (at->find(key) == nullptr) at->members.push_back({std::string(key), mark, {}});
    at = at->find(key);
  }
}

// Takes "override " and the like from the front of `text`.
bool take_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

// An entry of the list: "optional group@package: file".
struct Entry {
  std::string group;                   // from the first file's folder
  std::optional<std::string> package;  // as it is written
  std::string folder, file, written;
  bool is_self = false, is_optional = false, is_override = false;
  Mark mark;
};

// What stands before the ':' in a file of the folder `folder`.
Entry read_group(std::string_view key, std::string_view folder) {
  Entry e;
  e.is_override = take_word(key, "override ");
  e.is_optional = take_word(key, "optional ");
  const size_t at = key.find('@');
  if (at != std::string_view::npos) e.package = key.substr(at + 1);
  key = key.substr(0, at);
  if (key == ".") key = {};
  e.folder = take_word(key, "/") ? "" : folder;
  e.group = key;
  return e;
}

// The entries that an item of the list in a file of `folder` stands for: "- model: [a, b]" is two.
// None where it cannot be understood.
std::vector<Entry> read_entries(const Value& item, const std::string& folder) {
  std::vector<Entry> all;
  if (item.is_scalar()) {  // "model/gpt@package": of the group model
    Entry e = read_group(item.text, folder);
    const size_t slash = e.group.rfind('/');
    e.file = e.group.substr(slash == std::string::npos ? 0 : slash + 1);
    e.group.resize(slash == std::string::npos ? 0 : slash);
    e.is_self = item.text == "_self_";
    e.written = item.text;
    e.mark = item.mark;
    if (!e.is_override) all.push_back(std::move(e));
    return all;
  }
  if (!item.is_mapping() || item.members.size() != 1) return all;
  const Member& m = item.members.front();
  const auto add = [&](const Value& file) {
    Entry e = read_group(m.key, folder);
    e.file = file.text;
    e.written = fmt::format("{}: {}", m.key, file.text);
    e.mark = item.mark;
    all.push_back(std::move(e));
  };
  if (m.value.is_scalar() || m.value.kind == Value::Kind::null) add(m.value);
  for (const Value& file : m.value.items)
    if (file.is_scalar()) add(file);
  if (all.size() < m.value.items.size()) all.clear();
  return all;
}

bool leaves_its_folder(std::string_view path) {
  int depth = 0;
  for (const std::string_view part : split(path, '/')) {
    if (part == "..") --depth;
    if (depth < 0) return true;
    if (part != ".." && part != "." && !part.empty()) ++depth;
  }
  return path.starts_with('/');
}

// "# @package _global_", which a file may begin with: where its keys belong.
std::optional<std::string> package_of_header(std::string_view text) {
  while (text.starts_with('#')) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    while (line.starts_with('#') || line.starts_with(' ')) line.remove_prefix(1);
    if (take_word(line, "@package "))
      return std::string(line.substr(0, line.find_last_not_of(" \r") + 1));
  }
  return {};
}

class Composition {
 public:
  explicit Composition(const ImportSources& in) : in_(in) {}

  // Adds what `file` and the files that it names say to `keys`, in the order in which the later
  // counts.  `folder` is that of the file, from the first one's, empty or with a '/' at its end;
  // `package` where its keys will be.
  void compose(Value file, const std::string& folder, const std::string& package, int depth) {
    const Value list = file.find("defaults") == nullptr ? Value{} : *file.find("defaults");
    if (depth > 0) std::erase_if(file.members, [](const Member& m) { return m.key == "defaults"; });
    // Those of the outer files count, wherever in their lists they stand.
    std::vector<Entry> entries;
    for (const Value& item : list.items) {
      const std::vector<Entry> some = read_entries(item, folder);
      if (some.empty() && !nothing_meant(item)) miss(package, to_flow(item), "is not understood");
      for (const Entry& e : some) {
        if (e.is_override)
          overrides_.emplace(choice(e, package), Override{e.file, e.written, package});
        else
          entries.push_back(e);
      }
    }
    bool own = false;
    for (const Entry& e : entries) {
      if (stopped_) return;
      if (e.is_self) {
        merge(mapping_at(keys, package, file.mark), file);
        own = true;
      } else {
        add(e, package, depth);
      }
    }
    if (!own) merge(mapping_at(keys, package, file.mark), file);
  }

  void name_unused_overrides() {
    for (const auto& [key, o] : overrides_)
      if (!o.used && !of_hydra(key)) miss(o.package, o.written, "overrides nothing that is chosen");
  }

  Value keys{};
  std::vector<MissingFile> missing{};

 private:
  struct Override {
    std::string file, written, package;
    bool used = false;
  };

  static bool of_hydra(std::string_view group) { return group.starts_with("hydra/"); }

  static bool nothing_meant(const Value& item) {
    if (item.kind == Value::Kind::null) return true;
    const Value* only =
        item.is_mapping() && item.members.size() == 1 ? &item.members.front().value : nullptr;
    return only != nullptr && only->kind == Value::Kind::sequence && only->items.empty();
  }

  void miss(const std::string& package, const std::string& written, const char* why) {
    if (missing.size() < kMostMissing) missing.push_back({package, written, why});
  }

  // Where the keys go that a file whose own are at `outer` names with this package.
  static std::string absolute(std::string_view named, const std::string& outer) {
    if (take_word(named, "_global_")) return std::string(named.substr(named.starts_with('.')));
    if (take_word(named, "_here_")) named.remove_prefix(named.starts_with('.'));
    if (outer.empty() || named.empty()) return outer + std::string(named);
    return fmt::format("{}.{}", outer, named);
  }

  static std::string package_of(const Entry& e, const std::string& outer,
                                const std::optional<std::string>& header = {}) {
    std::string group = e.group;
    std::replace(group.begin(), group.end(), '/', '.');
    std::string named = e.package ? *e.package : header ? *header : group;
    if (named == "_group_") named = group;
    return absolute(named, outer);
  }

  // What an entry chooses a file for.
  static std::string choice(const Entry& e, const std::string& outer) {
    return fmt::format("{}{}@{}", e.folder, e.group, package_of(e, outer));
  }

  // The file of the entry, if another is not chosen in its place.
  std::string file_of(const Entry& e, const std::string& outer) {
    if (e.group.empty() && !e.package) return e.file;
    std::string file = e.file;
    if (const auto o = overrides_.find(choice(e, outer)); o != overrides_.end()) {
      file = o->second.file;
      o->second.used = true;
    }
    const std::string group = e.folder + e.group;
    for (const std::string& word : in_.given)
      if (!group.empty() && word.starts_with(group + "=")) file = word.substr(group.size() + 1);
    return file;
  }

  void stop(const char* code, const std::string& message, const Mark& mark, std::string help) {
    in_.problems.add(code, message, mark, 1, {}, std::move(help));
    stopped_ = true;
  }

  void add(const Entry& e, const std::string& outer, int depth) {
    const std::string file = file_of(e, outer);
    if (file.empty() || file == "null" || of_hydra(e.folder + e.group + '/')) return;
    std::string package = package_of(e, outer);
    if (file.find("${") != std::string::npos)
      return miss(package, e.written, "hangs on what the file does not say");
    const std::string path =
        fmt::format("{}{}{}{}{}", e.folder, e.group, e.group.empty() ? "" : "/", file,
                    file.ends_with(".yaml") ? "" : ".yaml");
    if (leaves_its_folder(path))
      return stop("E111",
                  fmt::format("'{}' lies outside the folder of the file that is imported", path),
                  e.mark, "files that `defaults` names are read from that folder alone");
    if (depth >= kMostLevels || composed_ >= kMostComposed)
      return miss(package, e.written, "is one of too many files, and not read");
    const std::optional<std::string> text = in_.files ? in_.files(path) : std::nullopt;
    if (!text) {
      if (!e.is_optional) miss(package, e.written, "is another file, which is not there");
      return;
    }
    ++composed_;
    bytes_ += text->size();
    if (bytes_ > kMostText)
      return stop("E106", "the files that `defaults` names have more than 4 MiB together", e.mark,
                  "import the configuration that the run writes out");
    package = package_of(e, outer, package_of_header(*text));
    if (static_cast<size_t>(std::ranges::count(package, '.')) + 1 > kMostNesting)
      return stop("E105", fmt::format("nested deeper than {} levels", kMostNesting), e.mark, {});
    std::vector<RepeatedKey> repeated;
    Value other =
        parse_foreign_yaml(in_.problems, in_.problems.add_source({path, *text}), repeated);
    note_repeated(in_, repeated);
    if (other.is_mapping())
      compose(std::move(other), path.substr(0, path.rfind('/') + 1), package, depth + 1);
    else if (other.kind != Value::Kind::null)
      miss(package, e.written, "is no mapping of names to values");
  }

  const ImportSources& in_;
  std::map<std::string, Override, std::less<>> overrides_;  // by what they choose a file for
  size_t bytes_ = 0;
  int composed_ = 0;
  bool stopped_ = false;
};

}  // namespace

std::vector<MissingFile> compose_defaults(Value& root, const ImportSources& in) {
  Composition composition(in);
  const Value* list = root.find("defaults");
  if (list == nullptr || list->kind != Value::Kind::sequence) return {};
  composition.compose(root, "", "", 0);
  composition.name_unused_overrides();
  root = std::move(composition.keys);
  return std::move(composition.missing);
}

}  // namespace stepcast
