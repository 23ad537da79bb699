// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/composition.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "scenarios/document/files.h"

namespace stepcast {
namespace {

constexpr int kMostLevels = 8;     // files that name files
constexpr int kMostComposed = 64;  // of one configuration

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

// An entry of the list: "optional group@package: file".
struct Entry {
  std::string group, package, file, written;
  bool is_self = false, is_optional = false;
  Mark mark;
};

std::optional<Entry> read_entry(const Value& item) {
  Entry e;
  e.mark = item.mark;
  if (item.is_scalar()) {
    e.is_self = item.text == "_self_";
    e.file = e.written = item.text;
    return e;
  }
  if (!item.is_mapping() || item.members.size() != 1) return {};
  const Member& m = item.members.front();
  std::string_view key = m.key;
  if (key.starts_with("override ") || !m.value.is_scalar()) return {};
  if (key.starts_with("optional ")) {
    e.is_optional = true;
    key.remove_prefix(9);
  }
  const size_t at = key.find('@');
  e.group = key.substr(0, at);
  if (e.group == ".") e.group.clear();
  e.file = m.value.text;
  e.written = fmt::format("{}: {}", m.key, m.value.text);
  if (at != std::string_view::npos) {
    e.package = key.substr(at + 1);
  } else {
    e.package = e.group;
    std::replace(e.package.begin(), e.package.end(), '/', '.');
  }
  if (e.package == "_global_" || e.package == "_here_") e.package.clear();
  return e;
}

class Composition {
 public:
  explicit Composition(const ImportSources& in) : in_(in) {}

  // `folder` is that of the file, from the first one's, empty or with a '/' at its end; `package`
  // where its keys will be.
  void compose(Value& file, const std::string& folder, const std::string& package, int depth) {
    const Value* defaults = file.find("defaults");
    if (defaults == nullptr || defaults->kind != Value::Kind::sequence) return;
    Value result;
    result.kind = Value::Kind::mapping;
    result.mark = file.mark;
    bool own = false;
    for (const Value& item : defaults->items) {
      std::optional<Entry> e = read_entry(item);
      if (!e) continue;
      if (e->is_self) {
        merge(result, file);
        own = true;
      } else {
        choose(*e);
        add(result, *e, folder, joined(package, e->package), depth);
      }
    }
    if (!own) merge(result, file);
    file = std::move(result);
  }

  std::vector<MissingFile> missing{};

 private:
  static std::string joined(const std::string& package, const std::string& inner) {
    return package.empty() || inner.empty() ? package + inner : package + '.' + inner;
  }

  void choose(Entry& e) const {
    for (const std::string& word : in_.given)
      if (!e.group.empty() && word.starts_with(e.group + "="))
        e.file = word.substr(e.group.size() + 1);
  }

  void add(Value& result, const Entry& e, const std::string& folder, const std::string& package,
           int depth) {
    if (e.file.empty() || e.file == "null" || e.file.find("${") != std::string::npos) return;
    const std::string path = fmt::format("{}{}{}{}{}", folder, e.group, e.group.empty() ? "" : "/",
                                         e.file, e.file.ends_with(".yaml") ? "" : ".yaml");
    std::optional<std::string> text;
    if (in_.files && depth < kMostLevels && files_ < kMostComposed) text = in_.files(path);
    if (!text) {
      if (!e.is_optional) missing.push_back({package, e.written});
      return;
    }
    ++files_;
    std::vector<Member> repeated;
    Value other =
        parse_foreign_yaml(in_.problems, in_.problems.add_source({path, *text}), repeated);
    compose(other, path.substr(0, path.rfind('/') + 1), package, depth + 1);
    std::erase_if(other.members, [](const Member& m) { return m.key == "defaults"; });
    if (other.is_mapping()) merge(mapping_at(result, e.package, e.mark), other);
  }

  const ImportSources& in_;
  int files_ = 0;
};

}  // namespace

std::vector<MissingFile> compose_defaults(Value& root, const ImportSources& in) {
  Composition composition(in);
  composition.compose(root, "", "", 0);
  return std::move(composition.missing);
}

}  // namespace stepcast
