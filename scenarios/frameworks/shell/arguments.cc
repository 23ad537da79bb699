// SPDX-License-Identifier: Apache-2.0
// The arguments among the words of a command, and which of them are open.
#include <algorithm>

#include "scenarios/frameworks/shell/reader.h"

namespace stepcast {

namespace {

Value scalar_value(const ShellWord& word, std::string text) {
  Value v;
  v.kind = Value::Kind::scalar;
  v.mark = word.mark;
  v.text = std::move(text);
  return v;
}

// "--fp8-format hybrid" in quotes is two words to whoever wrote it.
std::vector<ShellWord> apart(const std::vector<ShellWord>& words) {
  std::vector<ShellWord> all;
  for (const ShellWord& w : words) {
    if (!is_option(w.text) || w.text.find_first_of(" \n") == std::string::npos) {
      if (w.text != "\\") all.push_back(w);
      continue;
    }
    for (size_t begin = 0; begin < w.text.size();) {
      const size_t end = std::min(w.text.find_first_of(" \n", begin), w.text.size());
      if (end > begin) all.push_back({w.text.substr(begin, end - begin), w.mark, w.open});
      begin = end + 1;
    }
  }
  return all;
}

// Reads the arguments of words, each open value once: those of one may hang on each other.
class ShellArguments {
 public:
  std::vector<ShellArgument> read(const std::vector<ShellWord>& whole) {
    std::vector<ShellArgument> all;
    const std::vector<ShellWord> words = apart(whole);
    const auto holds_options = [](const ShellWord& w) { return w.open && w.open->holds_options; };
    for (size_t i = 0; i < words.size();) {
      const ShellWord& word = words[i++];
      if (holds_options(word)) {
        const std::vector<ShellArgument>& may = alternatives(*word.open);
        all.insert(all.end(), may.begin(), may.end());
        continue;
      }
      if (!is_option(word.text)) continue;
      const size_t equals = word.text.find('=');
      ShellArgument a;
      a.argument.written = word.text.substr(0, equals);
      a.argument.name = argument_name(a.argument.written);
      const auto add_open = [&](const ShellWord& w) {
        if (!w.open) return;
        a.is_open = true;
        a.hangs_on.insert(w.open->names.begin(), w.open->names.end());
      };
      if (equals != std::string::npos) {
        a.argument.value = scalar_value(word, word.text.substr(equals + 1));
        add_open(word);
      } else {
        std::vector<Value> values;
        while (i < words.size() && !is_option(words[i].text) && !holds_options(words[i])) {
          const ShellWord& w = words[i++];
          // A launcher's last value ends before the program.
          if (!values.empty() && w.text.ends_with(".py")) break;
          // A variable that nothing sets is no further word.
          if (!values.empty() && w.open && w.open->is_unset) continue;
          values.push_back(scalar_value(w, w.text));
          // A value from the command line has no place of its own.
          if (w.mark.line == 0) values.back().mark = word.mark;
          a.only_unset = w.open && w.open->is_unset;
          add_open(w);
        }
        if (values.empty()) {
          a.argument.value = scalar_value(word, "true");
        } else if (values.size() == 1) {
          a.argument.value = std::move(values.front());
        } else {
          a.argument.value.kind = Value::Kind::sequence;
          a.argument.value.mark = values.front().mark;
          a.argument.value.items = std::move(values);
        }
      }
      all.push_back(std::move(a));
    }
    return all;
  }

 private:
  using ByName = std::map<std::string, const ShellArgument*>;

  // Arguments that one of several lists of words may give: those that all of them give are known.
  const std::vector<ShellArgument>& alternatives(const ShellOpen& open) {
    const auto [known, is_new] = known_.try_emplace(&open);
    if (!is_new) return known->second;
    std::vector<std::vector<ShellArgument>> lists;
    for (const auto& may : open.may_be) lists.push_back(read(may));
    std::vector<ByName> last;
    for (const auto& list : lists) {
      ByName& by_name = last.emplace_back();
      for (const ShellArgument& a : list) by_name[a.argument.name] = &a;
    }
    std::vector<ShellArgument> all;
    std::set<std::string> done;
    for (size_t l = 0; l < lists.size(); ++l) {
      for (const ShellArgument& a : lists[l]) {
        if (!done.insert(a.argument.name).second) continue;
        ShellArgument one = *last[l].at(a.argument.name);
        const std::string flow = to_flow(one.argument.value);
        for (const ByName& other : last) {
          // What is too much to be compared counts as different.
          if (comparisons_left_ == 0) one.is_open = true;
          if (comparisons_left_ == 0) break;
          --comparisons_left_;
          const auto same = other.find(a.argument.name);
          const bool has = same != other.end();
          if (has) one.is_open = one.is_open || same->second->is_open;
          if (has)
            one.hangs_on.insert(same->second->hangs_on.begin(), same->second->hangs_on.end());
          if (has && to_flow(same->second->argument.value) == flow) continue;
          one.is_open = true;
          one.hangs_on.insert(open.names.begin(), open.names.end());
        }
        all.push_back(std::move(one));
      }
    }
    return known_.at(&open) = std::move(all);
  }

  std::map<const ShellOpen*, std::vector<ShellArgument>> known_;
  size_t comparisons_left_ = 100'000;
};

}  // namespace

std::vector<ShellArgument> arguments_of(const std::vector<ShellWord>& words) {
  return ShellArguments().read(words);
}

}  // namespace stepcast
