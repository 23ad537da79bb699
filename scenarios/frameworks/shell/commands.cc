// SPDX-License-Identifier: Apache-2.0
// Assignments, functions, files that are sourced, and programs, of which the words are kept.
#include "scenarios/frameworks/shell/reader.h"

#include <fmt/format.h>

#include <algorithm>

namespace stepcast {

std::optional<ShellReader::Assignment> ShellReader::assignment(const ShellText& in, ShellRange r) {
  const std::string& text = in.text;
  size_t at = r.begin;
  if (at >= r.end || !is_shell_name_start(text[at])) return {};
  while (at < r.end && is_shell_name(text[at])) ++at;
  Assignment a;
  a.name = text.substr(r.begin, at - r.begin);
  if (at < r.end && text[at] == '[') {
    const size_t close = text.find(']', at);
    if (close == text.npos || close >= r.end) return {};
    a.key = ShellRange{at + 1, close};
    at = close + 1;
  }
  a.appends = at + 1 < r.end && text[at] == '+' && text[at + 1] == '=';
  if (a.appends) ++at;
  if (at >= r.end || text[at] != '=') return {};
  a.value = {at + 1, r.end};
  return a;
}

void ShellReader::assign(const ShellText& in, const Assignment& a, bool exports) {
  const std::string& text = in.text;
  if (fixed_.contains(a.name)) return;
  Variable v;
  if (!a.value.empty() && text[a.value.begin] == '(') {
    v = array(in,
              {a.value.begin + 1, text[a.value.end - 1] == ')' ? a.value.end - 1 : a.value.end});
    if (a.appends) {
      Variable old = find(a.name) == nullptr ? Variable{} : *find(a.name);
      spend_copy(old);
      if (!old.is_array)
        std::erase_if(old.items, [](const auto& i) { return i.second.text.empty(); });
      for (auto& [k, item] : v.items) {
        const bool is_index = is_digits(k);
        old.items.emplace_back(is_index ? fmt::format("{}", old.items.size()) : k, std::move(item));
        spend(old.items.back().second.text.size() + 32);
      }
      v.items = std::move(old.items);
    }
  } else {
    ShellText value = one_text(in, a.value);
    if (value.places.empty()) value.places.push_back({0, in.mark_at(a.value.begin)});
    if (a.key) {
      std::string key = one_text(in, *a.key).text;
      if (const auto number = shell_number(key, {})) key = fmt::format("{}", *number);
      if (const Variable* old = find(a.name)) v = *old;
      v.is_array = true;
      const auto known = std::find_if(v.items.begin(), v.items.end(),
                                      [&](const auto& i) { return i.first == key; });
      if (known != v.items.end())
        known->second = value;
      else
        v.items.emplace_back(key, value);
      for (const auto& [k, t] : v.items) spend(t.text.size() / 16 + kCopied);
    } else if (a.appends) {
      if (const Variable* old = find(a.name)) v = *old;
      if (v.items.empty()) v = scalar({});
      if (v.items.front().second.text.size() + value.text.size() > kLongestText) {
        if (!script_.cut) script_.cut = in.mark_at(a.value.begin);
        return;
      }
      spend(v.items.front().second.text.size() / 16);
      v.items.front().second.append(value);
    } else {
      v = scalar(std::move(value));
    }
  }
  const Mark mark = in.mark_at(a.value.begin);
  if (exports || a.name.find("NCCL") != std::string::npos || a.name.starts_with("CUDA_") ||
      a.name.starts_with("NVTE_")) {
    const std::string value = shown(joined(v.items).text);
    spend(value.size());
    script_.exported.emplace_back(a.name, ShellWord{value, mark, nullptr});
  }
  assign(a.name, std::move(v));
}

ShellReader::Variable ShellReader::array(const ShellText& in, ShellRange inside) {
  Variable v;
  v.is_array = true;
  const std::string& text = in.text;
  for (size_t at = inside.begin; at < inside.end && !script_.cut;) {
    if (is_shell_space(text[at]) ||
        (text[at] == '\\' && at + 1 < inside.end && is_shell_space(text[at + 1]))) {
      at += text[at] == '\\' ? 2 : 1;
      continue;
    }
    if (text[at] == '#') {
      at = std::min(text.find('\n', at), inside.end);
      continue;
    }
    // "([0]*3+[1]*45)" is Python's, not the shell's.
    const size_t list = text[at] == '(' ? end_of_shell_group(text, at, inside.end) : at;
    size_t end = end_of_shell_word(text, list, inside.end);
    if (end == at) end = at + 1;
    const size_t close = text[at] == '[' ? text.find("]=", at) : text.npos;
    if (close != text.npos && close < end) {
      v.items.emplace_back(one_text(in, {at + 1, close}).text, one_text(in, {close + 2, end}));
    } else {
      for (ShellText& t : expand(in, {at, end}, Split::words))
        v.items.emplace_back(fmt::format("{}", v.items.size()), std::move(t));
    }
    at = end;
  }
  return v;
}

ShellReader::Outcome ShellReader::command(const ShellNode& node) {
  const ShellText& in = *node.in;
  if (node.words.empty()) return {};
  const std::string_view first(in.text.data() + node.words.front().begin,
                               node.words.front().end - node.words.front().begin);
  if (first.starts_with("((")) {
    return arithmetic(in, {node.words.front().begin + 2,
                           std::max(node.words.front().end - 2, node.words.front().begin + 2)});
  }
  if (first == "let") {
    Outcome o;
    for (size_t i = 1; i < node.words.size(); ++i) o = arithmetic(in, node.words[i]);
    return o;
  }
  if (first == "[" || first == "[[" || first == "test") return tested(node);
  size_t at = 0;
  bool exports = false, declares = false;
  if (first == "export" || first == "declare" || first == "local" || first == "readonly" ||
      first == "typeset") {
    exports = first == "export";
    declares = true;
    at = 1;
  }
  std::vector<Assignment> assignments;
  for (; at < node.words.size(); ++at) {
    const auto a = assignment(in, node.words[at]);
    if (a)
      assignments.push_back(*a);
    else if (!declares)
      break;
  }
  if (declares || at == node.words.size()) {
    const bool is_local = declares && !exports && first != "readonly" && !locals_.empty();
    for (const Assignment& a : assignments) {
      if (is_local) keep_for_caller(a.name);
      assign(in, a, exports);
    }
    for (size_t i = 1; is_local && i < node.words.size(); ++i) {
      const ShellRange w = node.words[i];
      const std::string name = in.text.substr(w.begin, w.end - w.begin);
      if (!std::all_of(name.begin(), name.end(), is_shell_name)) continue;
      keep_for_caller(name);
      unset_variable(name);
    }
    return {};
  }
  // "NAME=value program": for the program alone.
  std::vector<ShellText> words;
  const auto rest = [&] {
    for (; at < node.words.size() && !script_.cut; ++at)
      for (ShellText& t : expand(in, node.words[at], Split::words)) words.push_back(std::move(t));
  };
  if (assignments.empty()) {
    rest();
    return call(node, words);
  }
  Outcome o;
  rest();
  Changes changes = run_apart([&] {
    for (const Assignment& a : assignments) assign(in, a, false);
    o = call(node, words);
  });
  for (const Assignment& a : assignments) changes.erase(a.name);
  apply(changes);
  positional_ = apart_positional_;
  ends_ = apart_ended_;
  return o;
}

ShellReader::Outcome ShellReader::tested(const ShellNode& node) {
  std::vector<std::string> words;
  for (size_t i = 1; i < node.words.size(); ++i) {
    const std::string_view raw(node.in->text.data() + node.words[i].begin,
                               node.words[i].end - node.words[i].begin);
    if (raw == "]" || raw == "]]") break;
    words.push_back(one_text(*node.in, node.words[i]).text);
  }
  return test(words);
}

bool ShellReader::is_program(std::string_view word, std::string_view name) {
  return word == name || (word.size() > name.size() && word.ends_with(name) &&
                          word[word.size() - name.size() - 1] == '/');
}

ShellReader::Outcome ShellReader::call(const ShellNode& node, std::vector<ShellText> words) {
  if (script_.cut) return {};
  while (!words.empty() && (words.front().text == "exec" || words.front().text == "command" ||
                            words.front().text == "time" || words.front().text == "nohup" ||
                            words.front().text == "builtin"))
    words.erase(words.begin());
  if (words.empty()) return {};
  if (words.front().text == "env") {
    // "env NAME=value program": as without the word.  Its options are not read.
    words.erase(words.begin());
    for (; !words.empty(); words.erase(words.begin())) {
      const ShellText& word = words.front();
      const auto a = assignment(word, {0, word.text.size()});
      if (!a || a->key || a->appends) break;
      script_.exported.emplace_back(
          a->name, ShellWord{shown(word.text.substr(a->value.begin)), word.mark_at(0), nullptr});
    }
    return call(node, std::move(words));
  }
  const std::string first = words.front().text;
  std::vector<ShellText> arguments(words.begin() + 1, words.end());
  if (const auto function = functions_.find(first); function != functions_.end())
    return call_function(*function->second, arguments);
  if (first == "exit") {
    ends_ = Ends::script;
    return {};
  }
  if (first == "return") {
    ends_ = Ends::function;
    return {};
  }
  if (first == "true" || first == ":") return {};
  if (first == "false") return {Truth::no, Truth::no};
  if (first == "break" || first == "continue") {
    ends_ = first == "break" ? Ends::loop : Ends::round;
    leaves_ = arguments.empty() ? 1 : std::max(1, small_number(arguments[0].text));
    return {};
  }
  if (first == "shift") {
    size_t count = 1;
    if (!arguments.empty() && is_digits(arguments[0].text) && arguments[0].text.size() < 6)
      count = std::stoul(arguments[0].text);
    count = std::min(count, positional_->size());
    set_positional({positional_->begin() + static_cast<long>(count), positional_->end()});
    return {};
  }
  if (first == "set") {
    if (!arguments.empty() && arguments[0].text == "--")
      set_positional({arguments.begin() + 1, arguments.end()});
    return {};
  }
  if (first == "unset") {
    for (const ShellText& t : arguments) {
      unset_variable(t.text);
      spend(script_.exported.size());
      std::erase_if(script_.exported, [&](const auto& e) { return e.first == t.text; });
    }
    return {};
  }
  if (first == "read" || first == "mapfile" || first == "readarray") {
    read_input(node, arguments, words.front().mark_at(0), first != "read");
    return {Truth::unknown, Truth::unknown};
  }
  if (first == "getopts" && arguments.size() > 1) {
    for (const std::string& name : {arguments[1].text, std::string("OPTARG")})
      if (is_variable_name(name)) assign(name, unknown(name, words.front().mark_at(0)));
    return {Truth::unknown, Truth::unknown};
  }
  if (first == "printf" && arguments.size() > 1 && arguments[0].text == "-v") {
    const std::string& name = arguments[1].text;
    const bool is_plain =
        arguments.size() == 4 && (arguments[2].text == "%s" || arguments[2].text == "%d");
    if (is_variable_name(name))
      assign(name, is_plain ? scalar(arguments[3]) : unknown(name, words.front().mark_at(0)));
    return {};
  }
  if (first == "eval") {
    follow(joined_text(arguments), nullptr);
    return {};
  }
  if ((first == "source" || first == ".") && !arguments.empty()) {
    read_file(arguments.front(), nullptr);
    return {Truth::unknown, Truth::unknown};
  }
  if (is_program(first, "bash") || is_program(first, "sh") || first == "sbatch") {
    if (node.document) {  // "sbatch <<EOF"
      follow(inputs_.emplace_back(document_of(node)), nullptr);
      return {Truth::unknown, Truth::unknown};
    }
    if (first == "sbatch") tell_slurm(arguments);
    size_t i = 0;
    while (i < arguments.size() && arguments[i].text.starts_with('-') &&
           arguments[i].text.find('c') == std::string::npos)
      ++i;
    if (i < arguments.size() && !arguments[i].text.starts_with('-')) {
      const std::vector<ShellText> inner(arguments.begin() + static_cast<long>(i) + 1,
                                         arguments.end());
      bool known = false;
      run_apart([&] { known = read_file(arguments[i], &inner); });
      if (known) return {Truth::unknown, Truth::unknown};
    }
  }
  if (capture_ != nullptr) return print(node, words);
  if (first == "echo" || first == "printf" || first == "cd" || first == "mkdir" || first == "rm" ||
      first == "cat") {
    return {Truth::unknown, Truth::unknown};
  }
  // "bash -c 'torchrun ...'" and what a launcher gets as one word.
  for (const ShellText& t : arguments) {
    if (t.text.starts_with("--") ||
        (t.text.find(" --") == std::string::npos && t.text.find("\n--") == std::string::npos))
      continue;
    ShellText& inner = inputs_.emplace_back(t);
    follow(inner, nullptr);
  }
  ShellCommand c;
  for (const ShellText& t : words) {
    spend(t.text.size());
    c.words.push_back(word_of(t));
    if (t.text.starts_with("--num-layers") || t.text.starts_with("--hidden-size") ||
        t.text.starts_with("--micro-batch-size"))
      trains_ = true;
    if (const auto only = only_open(t.text); only && !trains_)
      for (const auto& may : opens_[*only].may_be)
        for (const ShellText& m : may) trains_ = trains_ || m.text.starts_with("--num-layers");
  }
  for (const auto& names : under_) {
    spend(names.size() * kCopied);
    c.hangs_on.insert(names.begin(), names.end());
  }
  script_.commands.push_back(std::move(c));
  return {Truth::unknown, Truth::unknown};
}

void ShellReader::tell_slurm(std::vector<ShellText>& arguments) {
  std::erase_if(arguments, [](const ShellText& t) {
    return !t.text.starts_with("--nodes=") && t.text.find(".s") == std::string::npos;
  });
  for (const ShellText& t : arguments) {
    if (!t.text.starts_with("--nodes=")) continue;
    const std::string asked = t.text.substr(8);
    // "4-8" asks for 4 at the least.
    change("SLURM_NNODES") = scalar(plain(asked.substr(0, asked.find('-')), t.mark_at(0)));
    script_.nodes = word_of(plain(asked, t.mark_at(0)));
  }
}

const ShellText& ShellReader::joined_text(const std::vector<ShellText>& words) {
  ShellText& all = inputs_.emplace_back();
  for (const ShellText& w : words) {
    if (!all.text.empty()) all.text += ' ';
    all.append(w);
  }
  return all;
}

void ShellReader::keep_for_caller(const std::string& name) {
  const Variable* old = find(name);
  if (old != nullptr) spend_copy(*old);
  locals_.back().try_emplace(name, old == nullptr ? std::nullopt : std::optional(*old));
}

ShellReader::Outcome ShellReader::call_function(const ShellNode& node,
                                                const std::vector<ShellText>& arguments) {
  if (calls_ >= kMostCalls || node.clauses.empty()) return {};
  const Positional before = positional_;
  set_positional(arguments);
  ++calls_;
  locals_.emplace_back();
  const Outcome o = run(node.clauses.front().body);
  apply(Changes(std::move(locals_.back())));
  locals_.pop_back();
  --calls_;
  positional_ = before;
  if (ends_ == Ends::function) ends_ = Ends::no;
  return o;
}

bool ShellReader::read_file(const ShellText& name, const std::vector<ShellText>* arguments) {
  if (!files_ || sourced_ >= kMostCalls) return false;
  std::string path = name.text;
  const size_t open_end = path.rfind(kOpenEnds);
  if (open_end != path.npos) path = path.substr(open_end + 1);
  if (open_end == path.npos && path.starts_with('/')) return false;  // not beside the script
  while (path.starts_with('/')) path.erase(0, 1);
  const std::optional<std::string> text = path.empty() ? std::nullopt : files_(path);
  if (!text) return false;
  ++sourced_;
  const SourceRef source = std::make_shared<const Source>(Source{path, *text});
  sources_.push_back(source);
  follow(whole(source), arguments);
  if (ends_ == Ends::function) ends_ = Ends::no;
  return true;
}

}  // namespace stepcast
