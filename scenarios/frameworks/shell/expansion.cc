// SPDX-License-Identifier: Apache-2.0
// What a word of a script becomes: variables, ${...}, $(...), quotes, and the words it falls apart
// into.
#include "scenarios/frameworks/shell/reader.h"

#include <fmt/format.h>

#include <algorithm>

namespace stepcast {

void ShellReader::put(ShellText& current, bool& any, char c, const Mark& mark) {
  current.append(c, mark);
  any = true;
}

std::vector<ShellText> ShellReader::expand(const ShellText& in, ShellRange range, Split split) {
  std::vector<ShellText> done;
  ShellText current;
  bool any = false, quoted = false;
  const auto finish = [&] {
    if (any) done.push_back(std::move(current));
    current = {};
    any = false;
  };
  const std::string& text = in.text;
  spend(range.end - range.begin);
  for (size_t at = range.begin; at < range.end && !script_.cut;) {
    const char c = text[at];
    if (c == '\'' && !quoted && split != Split::document) {
      any = true;
      for (++at; at < range.end && text[at] != '\''; ++at)
        put(current, any, text[at], in.mark_at(at));
      ++at;
    } else if (c == '"' && split != Split::document) {
      quoted = !quoted;
      any = true;
      ++at;
    } else if (c == '\\' && at + 1 < range.end) {
      ++at;
      if (text[at] == '\r' && at + 1 < range.end && text[at + 1] == '\n') ++at;
      if (text[at] == '\n') {
        if (quoted || split != Split::words) put(current, any, ' ', in.mark_at(at));
      } else if (split == Split::document) {
        if (std::string_view("$`\\").find(text[at]) == std::string::npos)
          put(current, any, '\\', in.mark_at(at));
        put(current, any, text[at], in.mark_at(at));
      } else if (quoted && std::string_view("$`\"\\").find(text[at]) == std::string::npos) {
        if (!is_shell_space(text[at])) put(current, any, '\\', in.mark_at(at));
        put(current, any, text[at], in.mark_at(at));
      } else {
        put(current, any, text[at], in.mark_at(at));
      }
      ++at;
    } else if (const size_t behind = quoted || split == Split::document
                                         ? at
                                         : end_of_placeholder(text, at, range.end);
               behind > at) {
      current.append(open({text.substr(at, behind - at), {}}, in.mark_at(at)));
      any = true;
      at = behind;
    } else if (c == '$' || c == '`') {
      std::vector<ShellText> values;
      bool is_list = false;
      const size_t before = at;
      at = substitute(in, at, range.end, values, is_list);
      if (at == before) {
        put(current, any, c, in.mark_at(at++));
        continue;
      }
      size_t made = 0;
      for (const ShellText& v : values)
        made += v.text.size() + 32;  // a word costs more than its text
      if (!spend(made) || current.text.size() + made > kLongestText) {
        if (!script_.cut) script_.cut = in.mark_at(before);
        break;
      }
      if (split != Split::words || (quoted && !is_list)) {
        for (size_t i = 0; i < values.size(); ++i) {
          if (i > 0) current.text += ' ';
          current.append(values[i]);
          any = true;
        }
      } else if (quoted) {
        for (size_t i = 0; i < values.size(); ++i) {
          if (i > 0) finish();
          current.append(values[i]);
          any = true;
        }
        if (values.empty() && current.text.empty()) any = false;
      } else {
        for (size_t i = 0; i < values.size(); ++i) {
          if (i > 0) finish();
          split_into(values[i], current, any, finish);
        }
      }
    } else {
      put(current, any, c, in.mark_at(at));
      ++at;
    }
  }
  finish();
  return done;
}

std::vector<ShellText> ShellReader::split_text(const ShellText& value) {
  std::vector<ShellText> words;
  ShellText current;
  bool any = false;
  const auto finish = [&] {
    if (any) words.push_back(std::move(current));
    current = {};
    any = false;
  };
  split_into(value, current, any, finish);
  finish();
  return words;
}

ShellText ShellReader::one_text(const ShellText& in, ShellRange range, Split split) {
  ShellText all;
  for (const ShellText& t : expand(in, range, split)) all.append(t);
  return all;
}

size_t ShellReader::substitute(const ShellText& in, size_t at, size_t end,
                               std::vector<ShellText>& values, bool& is_list) {
  const std::string& text = in.text;
  const Mark mark = in.mark_at(at);
  if (text[at] == '`') {
    size_t close = at + 1;
    while (close < end && text[close] != '`') ++close;
    values.push_back(printed(in, {at + 1, close}, {at, std::min(close + 1, end)}));
    return std::min(close + 1, end);
  }
  if (at + 1 >= end) return at;
  const char next = text[at + 1];
  if (next == '(') {
    const size_t close = end_of_shell_group(text, at + 1, end);
    const std::string_view inside(text.data() + at, close - at);
    if (inside.starts_with("$((") && inside.ends_with("))"))
      values.push_back(computed(in, {at + 3, close - 2}, {at, close}));
    else
      values.push_back(printed(in, {at + 2, std::max(close - 1, at + 2)}, {at, close}));
    return close;
  }
  if (next == '{') {
    const size_t close = end_of_shell_group(text, at + 1, end);
    if (++nested_ < 100)
      braces(in, {at + 2, std::max(close - 1, at + 2)}, {at, close}, values, is_list);
    --nested_;
    return close;
  }
  if (is_shell_name_start(next)) {
    size_t behind = at + 1;
    while (behind < end && is_shell_name(text[behind])) ++behind;
    value_of(text.substr(at + 1, behind - at - 1), mark, values);
    return behind;
  }
  if (next >= '0' && next <= '9') {
    value_of(std::string(1, next), mark, values);
    return at + 2;
  }
  if (next == '@' || next == '*') {
    values = *positional_;
    is_list = true;
    return at + 2;
  }
  if (next == '#') {
    values.push_back(plain(fmt::format("{}", positional_->size()), mark));
    return at + 2;
  }
  if (next == '?') {
    values.push_back(plain("0", mark));
    return at + 2;
  }
  if (next == '$' || next == '!' || next == '-') {
    values.push_back(open({std::string("$") + next, {}}, mark));
    return at + 2;
  }
  return at;
}

void ShellReader::value_of(const std::string& name, const Mark& mark,
                           std::vector<ShellText>& values) {
  if (is_digits(name)) {
    size_t index = 0;
    for (const char c : name)
      index = std::min<size_t>(index * 10 + static_cast<size_t>(c - '0'), 1'000'000);
    if (index == 0) {
      values.push_back(plain("./" + source_->name.substr(source_->name.rfind('/') + 1), mark));
      return;
    }
    if (index <= positional_->size()) {
      values.push_back((*positional_)[index - 1]);
    } else if (calls_ == 0) {
      values.push_back(unset(name, "$" + name, mark));
    }
    return;
  }
  const Variable* v = find(name);
  if (v == nullptr)
    values.push_back(unset(name, "$" + name, mark));
  else if (!v->items.empty())
    values.push_back(v->items.front().second);
}

void ShellReader::braces(const ShellText& in, ShellRange inside, ShellRange all,
                         std::vector<ShellText>& values, bool& is_list) {
  const std::string& text = in.text;
  const Mark mark = in.mark_at(all.begin);
  const auto as_written = [&](const std::set<std::string>& names) {
    values.push_back(open({text.substr(all.begin, all.end - all.begin), names}, mark));
  };
  size_t at = inside.begin;
  const bool counts = at + 1 < inside.end && text[at] == '#';
  const bool indirect = at + 1 < inside.end && text[at] == '!';
  if (counts || indirect) ++at;
  const size_t name_begin = at;
  while (at < inside.end && is_shell_name(text[at])) ++at;
  std::string name = text.substr(name_begin, at - name_begin);
  if (name.empty() && at < inside.end && (text[at] == '@' || text[at] == '*' || text[at] == '#')) {
    if (text[at] == '#') {
      values.push_back(plain(fmt::format("{}", positional_->size()), mark));
      return;
    }
    name = "@";
    ++at;
  }
  if (name.empty()) return as_written({});
  Variable v;
  bool known = false;
  std::optional<ShellText> key;
  if (name == "@") {
    is_list = true;
    known = true;
    spend(positional_->size() * kCopied);
    for (const ShellText& p : *positional_) v.items.emplace_back("", p);
  } else if (is_digits(name)) {
    std::vector<ShellText> value;
    value_of(name, mark, value);
    known = !(value.size() == 1 && only_open(value.front().text) &&
              opens_[*only_open(value.front().text)].is_unset);
    if (known && !value.empty()) v = scalar(value.front());
  } else {
    if (indirect) {
      const Variable* which = find(name);
      const std::string target = which == nullptr ? "" : joined(which->items).text;
      if (target.empty() || has_open(target)) return as_written({name});
      name = target;
    }
    if (const Variable* found = find(name)) {
      spend_copy(*found);
      v = *found;
      known = true;
    }
  }
  if (at < inside.end && text[at] == '[') {
    size_t close = at + 1;
    for (int depth = 1; close < inside.end; ++close) {
      depth += text[close] == '[' ? 1 : text[close] == ']' ? -1 : 0;
      if (depth == 0) break;
    }
    const std::string_view index(text.data() + at + 1, close - at - 1);
    if (index == "@" || index == "*")
      is_list = index == "@";
    else
      key = one_text(in, {at + 1, close});
    at = std::min(close + 1, inside.end);
    if (!known) return as_written({name});
  } else if (!v.items.empty() && name != "@") {
    v.items.erase(v.items.begin() + 1, v.items.end());
  }
  if (key) {
    if (has_open(key->text)) {
      std::set<std::string> names;
      add_names(key->text, names);
      return as_written(names);
    }
    std::string wanted = key->text;
    if (const auto number = shell_number(wanted, {})) wanted = fmt::format("{}", *number);
    Items found;
    for (const auto& [k, item] : v.items)
      if (k == wanted) found.emplace_back("0", item);
    if (!wanted.empty() && wanted.front() == '-' && is_digits(wanted.substr(1))) {
      const size_t back = std::stoul(wanted.substr(1, 6));
      if (back >= 1 && back <= v.items.size())
        found.emplace_back("0", v.items[v.items.size() - back].second);
    }
    v.items = std::move(found);
    known = !v.items.empty();
  }
  if (counts) {
    if (!known) return as_written({name});
    const std::string value = joined(v.items).text;
    if (has_open(value)) return as_written(names_in(value));
    values.push_back(plain(fmt::format("{}", v.is_array ? v.items.size() : value.size()), mark));
    return;
  }
  const ShellRange rest{at, inside.end};
  const std::string_view operation(text.data() + rest.begin, rest.end - rest.begin);
  if (operation.empty() || !alter(in, rest, operation, v, known, values, mark)) {
    if (!known && operation.empty() && !key)
      values.push_back(unset(name, "$" + name, mark));
    else if (operation.empty() && known)
      for (auto& [k, item] : v.items) values.push_back(std::move(item));
    else if (!operation.empty())
      as_written(known ? names_in(joined(v.items).text) : std::set<std::string>{name});
  }
}

std::set<std::string> ShellReader::names_in(std::string_view text) const {
  std::set<std::string> names;
  add_names(text, names);
  return names;
}

bool ShellReader::alter(const ShellText& in, ShellRange rest, std::string_view operation,
                        Variable& v, bool known, std::vector<ShellText>& values, const Mark& mark) {
  const bool colon = operation.front() == ':';
  const char kind = operation[colon && operation.size() > 1 ? 1 : 0];
  const ShellRange word{rest.begin + (colon ? 2 : 1), rest.end};
  const ShellText value = joined(v.items);
  if (kind == '-' || kind == '=' || kind == '+' || kind == '?') {
    if (colon && operation.size() < 2) return false;
    const bool is_set = known && (!colon || !value.text.empty());
    if (kind == '?') {
      if (!is_set) return false;
      for (auto& [k, item] : v.items) values.push_back(item);
    } else if (kind == '+') {
      if (is_set) values.push_back(one_text(in, word));
    } else if (is_set) {
      for (auto& [k, item] : v.items) values.push_back(item);
    } else {
      ShellText fallback = one_text(in, word);
      const size_t begin = in.text.rfind('{', rest.begin);
      if (kind == '=' && begin != std::string::npos)
        assign(in.text.substr(begin + 1, rest.begin - begin - 1), scalar(fallback));
      if (!fallback.text.empty() || !fallback.places.empty()) values.push_back(fallback);
    }
    return true;
  }
  if (!known || has_open(value.text)) return false;
  if (colon) {  // ${NAME:offset:length}
    const std::string range = one_text(in, {rest.begin + 1, rest.end}).text;
    const size_t second = range.find(':');
    const auto from = shell_number(range.substr(0, second), {});
    if (!from || *from < 0) return false;
    std::optional<int64_t> length;
    if (second != range.npos) {
      length = shell_number(range.substr(second + 1), {});
      if (!length || *length < 0) return false;
    }
    if (v.is_array || v.items.size() > 1) {
      for (size_t i = static_cast<size_t>(*from); i < v.items.size(); ++i)
        if (!length || i - static_cast<size_t>(*from) < static_cast<size_t>(*length))
          values.push_back(v.items[i].second);
    } else if (static_cast<size_t>(*from) <= value.text.size()) {
      const size_t count = length ? static_cast<size_t>(*length) : std::string::npos;
      values.push_back(plain(value.text.substr(static_cast<size_t>(*from), count), mark));
    }
    return true;
  }
  if (operation == "^^" || operation == ",,") {
    std::string changed = value.text;
    for (char& c : changed) {
      if (kind == '^' && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
      if (kind == ',' && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    values.push_back(plain(changed, mark));
    return true;
  }
  if (kind == '%' || kind == '#') {
    const bool longest = operation.size() > 1 && operation[1] == kind;
    const std::string pattern =
        one_text(in, {rest.begin + (longest ? size_t{2} : size_t{1}), rest.end}).text;
    if (has_open(pattern) || value.text.size() > 10'000) return false;
    const std::string& t = value.text;
    std::optional<size_t> cut;
    for (size_t i = 0; i <= t.size() && spent_ < kMostCharacters; ++i) {
      const size_t n = longest ? t.size() - i : i;  // characters that go
      const std::string_view part =
          kind == '#' ? std::string_view(t).substr(0, n) : std::string_view(t).substr(t.size() - n);
      if (fits(pattern, part)) {
        cut = n;
        break;
      }
    }
    if (cut)
      values.push_back(plain(kind == '#' ? t.substr(*cut) : t.substr(0, t.size() - *cut), mark));
    if (!cut) values.push_back(value);
    return true;
  }
  if (kind == '/') {
    const bool everywhere = operation.size() > 1 && operation[1] == '/';
    const size_t from = rest.begin + (everywhere ? 2 : 1);
    size_t slash = from;
    while (slash < rest.end && in.text[slash] != '/') slash += in.text[slash] == '\\' ? 2 : 1;
    slash = std::min(slash, rest.end);
    const std::string what = one_text(in, {from, slash}).text;
    const std::string by = slash < rest.end ? one_text(in, {slash + 1, rest.end}).text : "";
    if (what.empty() || has_open(what) || has_open(by) || what.find_first_of("*?[") != what.npos)
      return false;
    std::string changed;
    size_t at = 0;
    for (size_t hit = value.text.find(what); hit != value.text.npos && spend(by.size());
         hit = value.text.find(what, at)) {
      changed += value.text.substr(at, hit - at) + by;
      at = hit + what.size();
      if (!everywhere) break;
    }
    values.push_back(plain(changed + value.text.substr(at), mark));
    return true;
  }
  return false;
}

ShellText ShellReader::printed(const ShellText& in, ShellRange inside, ShellRange all) {
  const Mark mark = in.mark_at(all.begin);
  Capture capture;
  if (nested_ < 20) {
    ++nested_;
    const ShellNodes& nodes = parsed(in, inside);
    Capture* outer = capture_;
    capture_ = &capture;
    run_in_subshell([&] { run(nodes); });
    capture_ = outer;
    --nested_;
  } else {
    capture.is_known = false;
  }
  if (!capture.is_known)
    return open({in.text.substr(all.begin, all.end - all.begin), capture.names}, mark);
  while (!capture.text.text.empty() && is_shell_space(capture.text.text.back()))
    capture.text.text.pop_back();
  return capture.text;
}

}  // namespace stepcast
