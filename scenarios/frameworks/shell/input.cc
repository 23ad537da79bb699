// SPDX-License-Identifier: Apache-2.0
// What `read` and `mapfile` take, and what echo, seq, bc and the like print inside $(...).
#include "scenarios/frameworks/shell/reader.h"

#include <fmt/format.h>

#include <algorithm>

namespace stepcast {

bool ShellReader::is_variable_name(std::string_view name) {
  return !name.empty() && is_shell_name_start(name[0]) &&
         std::all_of(name.begin(), name.end(), is_shell_name);
}

int ShellReader::small_number(const std::string& text) {
  return is_digits(text) && text.size() < 6 ? std::stoi(text) : 0;
}

void ShellReader::read_input(const ShellNode& node, const Texts& arguments, const Mark& mark,
                             bool lines) {
  std::vector<std::string> names;
  bool is_array = lines, whole = false, known = node.document.has_value();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i].text;
    if (word.size() > 1 && word[0] == '-') {
      const char last = word.back();
      is_array = is_array || word.find('a') != word.npos;
      whole = whole || last == 'd';
      // What follows a letter that takes a value is no name.
      if (std::string_view("dnNptuiOsCc").find(last) != std::string_view::npos &&
          !(lines && last == 't') && last != 's')
        ++i;
      known = known && (last == 'd' || last == 'r' || last == 'a' || (lines && last == 't'));
    } else if (is_variable_name(word)) {
      names.push_back(word);
    }
  }
  if (names.empty()) return;
  const ShellText text = document_of(node);
  std::string between = " \t\n";
  if (const Variable* ifs = find("IFS")) between = joined(ifs->items).text;
  if (between.find_first_of("0123456789") != between.npos || has_open(between)) known = false;
  if (has_open(text.text) && (names.size() > 1 || is_array)) known = false;
  if (!known) {
    for (const std::string& name : names) {
      assign(name, unknown(name, mark));
      if (find(name) != nullptr && is_array) variables_[name].is_array = true;
    }
    return;
  }
  const size_t end = lines || whole ? text.text.size() : text.text.find('\n');
  const auto field = [&](size_t from, size_t to) {
    while (from < to && is_shell_space(text.text[from])) ++from;
    while (to > from && is_shell_space(text.text[to - 1])) --to;
    ShellText t;
    for (; from < to; ++from) t.append(text.text[from], text.mark_at(from));
    return t;
  };
  const std::string& separators = lines ? "\n" : between;
  Texts fields;
  size_t at = 0;
  const size_t stop = std::min(end, text.text.size());
  while (at < stop) {
    const bool is_last = !is_array && fields.size() + 1 == names.size();
    const size_t to = is_last ? stop : std::min(text.text.find_first_of(separators, at), stop);
    ShellText t = field(at, to);
    const bool is_run = lines || (to < stop && !is_shell_space(text.text[to]));
    if (!t.text.empty() || is_run) fields.push_back(std::move(t));
    at = to + 1;
  }
  spend(text.text.size() + fields.size() * kCopied);
  if (is_array) {
    Variable v;
    v.is_array = true;
    for (ShellText& t : fields)
      v.items.emplace_back(fmt::format("{}", v.items.size()), std::move(t));
    assign(names.front(), std::move(v));
    return;
  }
  for (size_t i = 0; i < names.size(); ++i)
    assign(names[i], scalar(i < fields.size() ? fields[i] : plain("", mark)));
}

ShellText ShellReader::document_of(const ShellNode& node) {
  if (!node.document) return {};
  if (node.document_is_string) return one_text(*node.in, *node.document);
  if (!node.document_is_plain) return one_text(*node.in, *node.document, Split::document);
  ShellText t;
  for (size_t i = node.document->begin; i < node.document->end; ++i)
    t.append(node.in->text[i], node.in->mark_at(i));
  return t;
}

ShellReader::Outcome ShellReader::print(const ShellNode& node,
                                        const std::vector<ShellText>& words) {
  const std::string first = words.front().text;
  ShellText& out = capture_->text;
  const bool piped = node.joined == ShellNode::Joined::pipe;
  std::string all;
  for (size_t i = 1; i < words.size(); ++i) all += (i > 1 ? " " : "") + words[i].text;
  if (first == "echo" && !piped) {
    bool any = !out.text.empty();
    for (size_t i = 1; i < words.size(); ++i) {
      if (i == 1 && (words[i].text == "-n" || words[i].text == "-e")) continue;
      if (any) out.text += ' ';
      out.append(words[i]);
      any = true;
    }
    return {};
  }
  if (first == "cat" && node.document && !piped) {
    out.append(document_of(node));
    return {};
  }
  if (first == "true" || first == "cd") return {};
  // Blanks that are put together: between words they are one to the shell too.
  if (piped && ((first == "sed" && words.back().text.starts_with("s/ ") &&
                 words.back().text.ends_with("*/ /g")) ||
                (first == "tr" && all == "-s  ") || (first == "xargs" && words.size() == 1)))
    return {};
  const auto number = [&](std::string text, NumberRules rules) -> bool {
    std::erase(text, '\\');
    const auto value = has_open(text) ? std::nullopt : shell_number(text, {}, rules);
    if (!value) return false;
    out = plain(fmt::format("{}", *value), words.front().mark_at(0));
    return true;
  };
  if (first == "expr" && !piped && number(all, NumberRules::decimal)) return {};
  if (first == "bc" && piped && number(out.text, NumberRules::decimal)) return {};
  if (first.starts_with("python") && !piped && words.size() == 3 && words[1].text == "-c") {
    std::string text = words[2].text;
    for (const std::string_view around : {"print(", "int("})
      if (text.starts_with(around) && text.ends_with(')'))
        text = text.substr(around.size(), text.size() - around.size() - 1);
    if (number(text, NumberRules::python)) return {};
  }
  if (first == "seq" && !piped && words.size() == 3 && is_digits(words[1].text) &&
      is_digits(words[2].text) && words[1].text.size() < 6 && words[2].text.size() < 6) {
    const int from = std::stoi(words[1].text), to = std::stoi(words[2].text);
    for (int i = from; i <= to && i < from + static_cast<int>(kMostRounds); ++i)
      out.append(plain(fmt::format("{} ", i), words.front().mark_at(0)));
    return {};
  }
  capture_->is_known = false;
  for (const ShellText& w : words) add_names(w.text, capture_->names);
  add_names(out.text, capture_->names);
  return {Truth::unknown, Truth::unknown};
}

}  // namespace stepcast
