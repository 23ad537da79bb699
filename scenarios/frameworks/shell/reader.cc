// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/shell/reader.h"

#include <fmt/format.h>

#include <algorithm>

namespace stepcast {

namespace {

// Whether `c` is one of the characters between "[" and "]"; "[!...]" is all others.
bool is_in_set(std::string_view set, char c) {
  const bool others = set.starts_with('!') || set.starts_with('^');
  if (others) set.remove_prefix(1);
  bool in = set.find(c) != set.npos;
  for (size_t i = 1; i + 1 < set.size(); ++i)
    in = in || (set[i] == '-' && set[i - 1] <= c && c <= set[i + 1]);
  return in != others;
}

// Patterns of `case`, `==` and ${NAME%...}: '*', '?', and [...] as any character.  Counts what it
// compares, and gives up at `most`.
bool fits_pattern(std::string_view pattern, std::string_view text, size_t& compared, size_t most) {
  size_t p = 0, t = 0, star = std::string_view::npos, from = 0;
  while (t < text.size()) {
    if (++compared > most) return false;
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = t;
      continue;
    }
    size_t behind = p;  // of what this character fits
    if (p < pattern.size()) {
      const size_t close = pattern[p] == '[' ? pattern.find(']', p) : pattern.npos;
      if (pattern[p] == '[') compared += std::min(close, pattern.size()) - p;
      if (close != pattern.npos)
        behind = is_in_set(pattern.substr(p + 1, close - p - 1), text[t]) ? close + 1 : p;
      else if (pattern[p] == '?' || pattern[p] == text[t])
        behind = p + 1;
    }
    if (behind > p) {
      p = behind;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// Whether the name stands in the text, and not just to be set.
bool reads_name(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
    const std::string_view rest = text.substr(at + name.size());
    if (at > 0 && is_shell_name(text[at - 1])) continue;
    if (!rest.empty() && is_shell_name(rest.front())) continue;
    const bool expanded = at > 0 && (text[at - 1] == '$' || text[at - 1] == '{');
    if (expanded || !(rest.starts_with('=') || rest.starts_with("+="))) return true;
  }
  return false;
}

}  // namespace

ShellReader::ShellReader(const SourceRef& source, const ShellGiven& given, const ShellFiles& files)
    : source_(source), files_(files) {
  Texts given_words;
  for (const std::string& word : given) {
    const size_t equals = word.find('=');
    const bool variable = equals != std::string::npos && equals > 0 &&
                          is_shell_name_start(word[0]) &&
                          std::all_of(word.begin(), word.begin() + static_cast<long>(equals),
                                      [](char c) { return is_shell_name(c); });
    ShellText value =
        plain(without_marks(variable ? word.substr(equals + 1) : word), Mark{source, 0, 0});
    if (variable) {
      variables_[word.substr(0, equals)] = scalar(value);
      fixed_.insert(word.substr(0, equals));
    } else {
      given_words.push_back(std::move(value));
    }
  }
  set_positional(std::move(given_words));
  read_scheduler_comments(source->text);
}

ShellScript ShellReader::read() {
  follow(whole(source_), nullptr);
  for (const std::string& name : fixed_)
    if (std::ranges::none_of(inputs_, [&](const ShellText& t) { return reads_name(t.text, name); }))
      script_.unread.push_back(name);
  return std::move(script_);
}

ShellReader::Truth ShellReader::negated(Truth t) {
  return t == Truth::unknown ? t : t == Truth::yes ? Truth::no : Truth::yes;
}

ShellText ShellReader::plain(std::string_view text, const Mark& mark) {
  ShellText t;
  for (const char c : text) t.append(c, mark);
  return t;
}

ShellReader::Variable ShellReader::scalar(ShellText text) {
  Variable v;
  v.items.emplace_back("0", std::move(text));
  return v;
}

void ShellReader::set_positional(Texts words) {
  spend(words.size() * kCopied);
  positional_ = std::make_shared<const Texts>(std::move(words));
}

std::string ShellReader::without_marks(std::string text) {
  for (char& c : text)
    if (c == kOpenBegins || c == kOpenEnds || c == '\0') c = ' ';
  return text;
}

const ShellText& ShellReader::whole(const SourceRef& source) {
  ShellText& t = inputs_.emplace_back();
  t.text = without_marks(source->text);
  size_t at = 0;
  for (int line = 1; at < t.text.size(); ++line) {
    t.places.push_back({at, {source, line, 1}});
    const size_t end = t.text.find('\n', at);
    if (end == std::string::npos) break;
    at = end + 1;
  }
  return t;
}

bool ShellReader::spend(size_t characters) {
  spent_ += characters;
  return spent_ < kMostCharacters;
}

bool ShellReader::fits(std::string_view pattern, std::string_view text) {
  size_t compared = 0;
  const bool fit = fits_pattern(pattern, text, compared, kMostCharacters * kComparisons);
  spend(compared / kComparisons);
  return fit;
}

bool ShellReader::may_go_on(const Mark& mark) {
  if (spent_ < kMostCharacters && ++statements_ < kMostStatements) return true;
  if (!script_.cut) script_.cut = mark;
  return false;
}

ShellText ShellReader::open(Open o, const Mark& mark) {
  opens_.push_back(std::move(o));
  return plain(fmt::format("{}{}{}", kOpenBegins, opens_.size() - 1, kOpenEnds), mark);
}

ShellText ShellReader::unset(const std::string& name, const std::string& written,
                             const Mark& mark) {
  const auto [known, is_new] = unset_.emplace(name, opens_.size());
  if (is_new) opens_.push_back({written, {name}, true});
  return plain(fmt::format("{}{}{}", kOpenBegins, known->second, kOpenEnds), mark);
}

void ShellReader::add_names(std::string_view text, std::set<std::string>& names) const {
  each_open(text, [&](size_t i, size_t, size_t) {
    names.insert(opens_[i].names.begin(), opens_[i].names.end());
  });
}

std::optional<size_t> ShellReader::only_open(std::string_view text) const {
  std::optional<size_t> only;
  each_open(text, [&](size_t i, size_t begin, size_t end) {
    if (begin == 0 && end == text.size()) only = i;
  });
  return only;
}

std::string ShellReader::shown(std::string_view text, bool without_unset) const {
  std::string all;
  size_t at = 0;
  each_open(text, [&](size_t i, size_t begin, size_t end) {
    all += text.substr(at, begin - at);
    if (!without_unset || !opens_[i].is_unset) all += opens_[i].written;
    at = end;
  });
  return all += text.substr(at);
}

std::string ShellReader::emptied(std::string_view text) const {
  std::string all;
  size_t at = 0;
  each_open(text, [&](size_t i, size_t begin, size_t end) {
    all += text.substr(at, begin - at);
    const bool is_empty = opens_[i].is_unset && !is_digits(*opens_[i].names.begin());
    if (!is_empty) all += text.substr(begin, end - begin);
    at = end;
  });
  return all += text.substr(at);
}

ShellWord ShellReader::word_of(const ShellText& t) {
  ShellWord w{shown(t.text), t.mark_at(0), nullptr};
  if (!has_open(t.text)) return w;
  if (const auto only = only_open(t.text)) {
    w.open = described(*only);
    return w;
  }
  auto o = std::make_shared<ShellOpen>();
  add_names(t.text, o->names);
  w.open = std::move(o);
  return w;
}

std::shared_ptr<const ShellOpen> ShellReader::described(size_t index) {
  if (described_.size() <= index) described_.resize(opens_.size());
  if (described_[index]) return described_[index];
  auto o = std::make_shared<ShellOpen>();
  o->names = opens_[index].names;
  o->is_unset = opens_[index].is_unset;
  if (++nested_ < 100)
    for (const auto& words : opens_[index].may_be) {
      std::vector<ShellWord> all;
      for (const ShellText& word : words) {
        all.push_back(word_of(word));
        o->holds_options = o->holds_options || is_option(all.back().text) ||
                           (all.back().open && all.back().open->holds_options);
      }
      o->may_be.push_back(std::move(all));
    }
  --nested_;
  described_[index] = o;
  return o;
}

const ShellReader::Variable* ShellReader::find(std::string_view name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second;
}

ShellReader::Variable& ShellReader::change(const std::string& name) {
  if (!journals_.empty() && !journals_.back().contains(name)) {
    const Variable* old = find(name);
    if (old != nullptr) spend_copy(*old);
    journals_.back()[name] = old == nullptr ? std::nullopt : std::optional(*old);
  }
  return variables_[name];
}

void ShellReader::assign(const std::string& name, Variable value) {
  if (fixed_.contains(name)) return;
  if (value.items.size() == 1 && !value.is_array) {
    ShellText& text = value.items.front().second;
    if (const auto only = only_open(text.text)) {
      const Open& o = opens_[*only];
      // X=$X and X=${X} leave open what is open.
      if (o.is_unset && *o.names.begin() == name) return;
      if (o.is_unset && is_digits(*o.names.begin()))
        script_.variable_of.emplace(*o.names.begin(), name);
    }
    // What a program prints can be given under the variable's name.
    std::set<std::string> names;
    add_names(text.text, names);
    if (names.empty() && has_open(text.text)) text = open({"$" + name, {name}}, text.mark_at(0));
  }
  change(name) = std::move(value);
}

void ShellReader::unset_variable(const std::string& name) {
  if (fixed_.contains(name)) return;
  change(name);
  variables_.erase(name);
}

ShellText ShellReader::joined(const Items& items) {
  ShellText all;
  for (const auto& [key, text] : items) {
    if (!all.text.empty()) all.text += ' ';
    all.append(text);
  }
  return all;
}

void ShellReader::read_scheduler_comments(std::string_view text) {
  for (size_t at = 0; at < text.size() && at < 100'000;) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with("#SBATCH") && !line.starts_with("#PBS")) continue;
    const auto number = [&](std::initializer_list<std::string_view> options) -> std::string {
      for (const std::string_view option : options) {
        const size_t found = line.find(option);
        if (found == line.npos) continue;
        const std::string_view rest = line.substr(found + option.size());
        return std::string(rest.substr(0, rest.find_first_not_of("0123456789")));
      }
      return {};
    };
    const auto set = [&](std::string value, std::initializer_list<const char*> names) {
      if (value.empty()) return;
      for (const char* name : names)
        if (!variables_.contains(name))
          variables_[name] = scalar(plain(value, Mark{source_, 0, 0}));
    };
    set(number({"--nodes=", "--nodes ", "-N "}), {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"});
    set(number({"--gpus-per-node=", "--gres=gpu:"}), {"SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"});
    set(number({"--ntasks-per-node=", "--ntasks-per-node "}), {"SLURM_NTASKS_PER_NODE"});
    set(number({"--ntasks="}), {"SLURM_NTASKS", "SLURM_NPROCS"});
  }
}

ShellScript read_shell(const SourceRef& source, const ShellGiven& given, const ShellFiles& files) {
  return ShellReader(source, given, files).read();
}

}  // namespace stepcast
