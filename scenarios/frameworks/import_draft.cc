// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/import_draft.h"

#include <algorithm>

#include "scenarios/schema/keys.h"
#include "sim/text.h"

namespace stepcast {
namespace {

// How many keys the sections of two paths have in common: 1 for cluster.nodes and
// cluster.node.gpus.
size_t shared_depth(std::string_view a, std::string_view b) {
  size_t depth = 0;
  while (true) {
    const size_t dot = a.find('.');
    if (dot == std::string_view::npos || b.find('.') != dot || a.substr(0, dot) != b.substr(0, dot))
      return depth;
    ++depth;
    a.remove_prefix(dot + 1);
    b.remove_prefix(dot + 1);
  }
}

bool is_below(std::string_view path, std::string_view above) {
  return path.size() > above.size() && path.starts_with(above) && path[above.size()] == '.';
}

// Whether a scenario may say so: the row is there, or one above it takes anything.
bool known(std::string_view path, const std::string& value) {
  if (const Field* f = find_field(path))
    return f->type != FieldType::choice || f->choices.find(value) != nullptr;
  for (size_t dot = path.rfind('.'); dot != std::string_view::npos;
       dot = path.rfind('.', dot - 1)) {
    const Field* f = find_field(path.substr(0, dot));
    if (f != nullptr)
      return f->type == FieldType::opaque || f->type == FieldType::noted ||
             f->type == FieldType::pairs;
    if (dot == 0) break;
  }
  return false;
}

}  // namespace

std::string yaml_text(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '/' || c == ' ';
  };
  const bool letter =
      !text.empty() && ((text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z'));
  bool quotes = !letter || text.back() == ' ';
  for (const char c : text) quotes = quotes || !plain(c);
  for (const std::string_view word :
       {"true", "false", "null", "True", "False", "Null", "yes", "no", "on", "off", "nan", "inf"})
    quotes = quotes || text == word;
  if (!quotes) return std::string(text);
  // What escape_text() makes of a control character or of a byte that is no UTF-8 is an escape of
  // YAML.
  std::string s = "\"";
  for (size_t at = 0; at < text.size();) {
    const size_t length = decode_utf8(text, at).length;
    if (text[at] == '"' || text[at] == '\\') s += '\\';
    s += escape_text(text.substr(at, length));
    at += length;
  }
  return s + '"';
}

void ScenarioDraft::set(const std::string& path, std::string value, const std::string& why) {
  if (!known(path, value)) return note(why + ": not modelled, left out");
  put({path, std::move(value), escape_text(why)});
}

void ScenarioDraft::put(Entry entry) {
  const auto same = std::find_if(entries_.begin(), entries_.end(),
                                 [&](const Entry& e) { return e.path == entry.path; });
  if (same != entries_.end()) {
    *same = std::move(entry);
    return;
  }
  // What is below it, or stood for all of it, is replaced.
  std::erase_if(entries_, [&](const Entry& e) {
    return is_below(e.path, entry.path) || is_below(entry.path, e.path);
  });
  size_t deepest = 0;
  auto at = entries_.end();
  for (auto e = entries_.begin(); e != entries_.end(); ++e)
    if (const size_t depth = shared_depth(e->path, entry.path); depth > 0 && depth >= deepest) {
      deepest = depth;
      at = e + 1;
    }
  entries_.insert(at, std::move(entry));
}

void ScenarioDraft::set(const std::string& path, int64_t value, const std::string& why) {
  set(path, std::to_string(value), why);
}

void ScenarioDraft::set(const std::string& path, bool value, const std::string& why) {
  set(path, std::string(value ? "true" : "false"), why);
}

void ScenarioDraft::set_text(const std::string& path, std::string_view text,
                             const std::string& why) {
  if (!known(path, std::string(text))) return note(why + ": not modelled, left out");
  put({path, yaml_text(text), escape_text(why)});
}

void ScenarioDraft::assume(const std::string& path, const std::string& value,
                           const std::string& why) {
  set(path, value, "assumed: " + why);
  note(path + ": " + value + " is assumed: " + why);
}

void ScenarioDraft::override_with(const std::string& path, const std::string& value) {
  std::string line = value;  // YAML, for which a line break is a blank too
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  put({path, escape_text(line), "-s"});
  notes_.erase(std::remove_if(notes_.begin(), notes_.end(),
                              [&](const std::string& n) { return n.starts_with(path + ": "); }),
               notes_.end());
}

void ScenarioDraft::note(std::string text) {
  text = escape_text(text);
  if (std::find(notes_.begin(), notes_.end(), text) == notes_.end())
    notes_.push_back(std::move(text));
}

bool ScenarioDraft::has(std::string_view path) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& e) { return e.path == path; });
}

std::string ScenarioDraft::text(const std::string& head) const {
  std::string text;
  for (size_t at = 0; at < head.size();) {
    const size_t end = std::min(head.find('\n', at), head.size());
    text += "# " + escape_text(std::string_view(head).substr(at, end - at)) + '\n';
    at = end + 1;
  }
  for (const std::string& note : notes_) text += "# - " + note + '\n';
  std::string_view open;
  for (const Entry& e : entries_) {
    const size_t shared = shared_depth(e.path, open);
    if (shared == 0 &&
        (open.find('.') != std::string_view::npos || e.path.find('.') != std::string::npos))
      text += '\n';
    open = e.path;
    std::string_view rest = e.path;
    for (size_t depth = 0;; ++depth) {
      const size_t dot = rest.find('.');
      const std::string indent(2 * depth, ' ');
      if (dot == std::string_view::npos) {
        text += indent + std::string(rest) + ": " + e.value;
        text += (e.why.empty() ? "" : "  # " + e.why) + '\n';
        break;
      }
      if (depth >= shared) text += indent + std::string(rest.substr(0, dot)) + ":\n";
      rest.remove_prefix(dot + 1);
    }
  }
  return text;
}

}  // namespace stepcast
