// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/import_draft.h"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/frameworks/import_arguments.h"
#include "scenarios/resolve/model.h"
#include "scenarios/schema/keys.h"
#include "sim/saturating.h"
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

// Whether a scenario has this key and, if it is a choice, this word; a key above it may take
// anything.
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

std::string assumed(const std::string& why) {
  return fmt::format("assumed: {}", why);
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
  // escape_text() writes control characters and bytes that are no UTF-8 as "\xNN", which is an
  // escape in YAML too.
  std::string s = "\"";
  for (size_t at = 0; at < text.size();) {
    const size_t length = decode_utf8(text, at).length;
    if (text[at] == '"' || text[at] == '\\') s += '\\';
    s += escape_text(text.substr(at, length));
    at += length;
  }
  return s + '"';
}

void ScenarioDraft::set(const std::string& path, std::string value, const Origin& origin) {
  if (!known(path, value)) return left_out(origin.text);
  put({path, std::move(value), {escape_text(origin.text), origin.mark}});
}

void ScenarioDraft::put(DraftValue value) {
  const auto same = std::find_if(values_.begin(), values_.end(),
                                 [&](const DraftValue& v) { return v.path == value.path; });
  if (same != values_.end()) {
    *same = std::move(value);
    return;
  }
  // The value replaces those below its path, and one that stood for the whole section.
  std::erase_if(values_, [&](const DraftValue& v) {
    return is_below(v.path, value.path) || is_below(value.path, v.path);
  });
  size_t deepest = 0;
  auto at = values_.end();
  for (auto v = values_.begin(); v != values_.end(); ++v)
    if (const size_t depth = shared_depth(v->path, value.path); depth > 0 && depth >= deepest) {
      deepest = depth;
      at = v + 1;
    }
  values_.insert(at, std::move(value));
}

void ScenarioDraft::set(const std::string& path, int64_t value, const Origin& origin) {
  set(path, fmt::format("{}", value), origin);
}

void ScenarioDraft::set(const std::string& path, bool value, const Origin& origin) {
  set(path, std::string(value ? "true" : "false"), origin);
}

void ScenarioDraft::set_text(const std::string& path, std::string_view text, const Origin& origin) {
  if (!known(path, std::string(text))) return left_out(origin.text);
  put({path, yaml_text(text), {escape_text(origin.text), origin.mark}});
}

void ScenarioDraft::assume(const std::string& path, const std::string& value,
                           const std::string& why) {
  set(path, value, assumed(why));
  note_assumed(path, value, why);
}

void ScenarioDraft::derive(const std::string& path, DerivedBatch how, const Origin& origin) {
  put({path, "", {escape_text(origin.text), origin.mark}, std::move(how)});
}

void ScenarioDraft::assume_derived(const std::string& path, DerivedBatch how,
                                   const std::string& why) {
  how.assumed_why = why;
  derive(path, std::move(how), assumed(why));
}

void ScenarioDraft::settle_batch(std::optional<int64_t> replicas) {
  const auto size = [&](std::string_view path) -> int64_t {
    const auto v = std::ranges::find(values_, path, &DraftValue::path);
    return v == values_.end() ? 1 : python_whole(v->value).value_or(1);
  };
  for (DraftValue& v : values_) {
    if (!v.derived) continue;
    const int64_t each =
        saturating_product(v.derived->count, replicas.value_or(v.derived->replicas));
    const bool splits = v.derived->rule == DerivedBatch::Rule::split;
    const bool by_micro = v.derived->rule == DerivedBatch::Rule::microbatches;
    v.value = fmt::format(
        "{}", splits ? std::max<int64_t>(1, size("batch.global") / std::max<int64_t>(1, each))
                     : saturating_product(each, by_micro ? size("batch.micro") : 1));
    if (v.derived->assumed_why) note_assumed(v.path, v.value, *v.derived->assumed_why);
  }
}

void ScenarioDraft::override_with(const std::string& path, const std::string& value) {
  std::string line = value;  // to YAML a line break is a blank too
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  put({path, escape_text(line), "-s"});
  std::erase_if(notes_, [&](const Note& n) { return n.path == path || is_below(n.path, path); });
}

void ScenarioDraft::add_note(Note note) {
  note.text = escape_text(note.text);
  if (std::ranges::find(notes_, note.text, &Note::text) == notes_.end())
    notes_.push_back(std::move(note));
}

void ScenarioDraft::note(std::string text) {
  add_note({{}, std::move(text)});
}

void ScenarioDraft::note_about(const std::string& path, std::string_view text) {
  add_note({path, fmt::format("{}: {}", path, text)});
}

std::vector<std::string> ScenarioDraft::notes() const {
  std::vector<std::string> texts;
  for (const Note& n : notes_) texts.push_back(n.text);
  return texts;
}

void ScenarioDraft::note_assumed(const std::string& path, const std::string& value,
                                 const std::string& why) {
  note_about(path, fmt::format("{} is assumed: {}", value, why));
}

void ScenarioDraft::left_out(const std::string& what) {
  note(left_out_remark(what));
}

DraftText ScenarioDraft::text(const std::string& head) const {
  DraftText written{{}, {nullptr}};
  const auto add_line = [&](const std::string& line, const DraftValue* value = nullptr) {
    written.text += line + '\n';
    written.of_line.push_back(value);
  };
  for (const std::string_view line : split_lines(head)) add_line("# " + escape_text(line));
  for (const Note& note : notes_) add_line("# - " + note.text);
  std::string_view open;
  for (const DraftValue& v : values_) {
    if (v.derived && v.value.empty()) continue;  // not worked out yet
    const size_t shared = shared_depth(v.path, open);
    if (shared == 0 &&
        (open.find('.') != std::string_view::npos || v.path.find('.') != std::string::npos))
      add_line("");
    open = v.path;
    std::string_view rest = v.path;
    for (size_t depth = 0;; ++depth) {
      const size_t dot = rest.find('.');
      const std::string indent(2 * depth, ' ');
      if (dot == std::string_view::npos) {
        const std::string& why = v.origin.text;
        add_line(fmt::format("{}{}: {}{}{}", indent, rest, v.value, why.empty() ? "" : "  # ", why),
                 &v);
        break;
      }
      if (depth >= shared) add_line(fmt::format("{}{}:", indent, rest.substr(0, dot)));
      rest.remove_prefix(dot + 1);
    }
  }
  return written;
}

}  // namespace stepcast
