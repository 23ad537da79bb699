// SPDX-License-Identifier: Apache-2.0
// A shell script is followed here, statement by statement, as the shell would do it, and nothing is
// run.
//
// Every text of the script is a ShellText, which knows where each of its characters is written.
// What is not known is an open value: a number between two marks inside a text, whose meaning
// stands in a table (Open).  So "--num-layers $LAYERS", where nothing sets LAYERS, goes through
// quotes, arrays and functions like any other text, and comes out with its name.
//
// Of branches of which any may hold each is followed by itself, on variables that are put back
// afterwards (run_apart); what they leave differently is open from then on, with the values that it
// may have (merge).
//
// Example: `if [ $SIZE = 7B ]; then LAYERS=32; else LAYERS=40; fi`.  SIZE is open, so the condition
// is unknown and hangs on SIZE; both branches are followed; LAYERS becomes an open value that may
// be 32 or 40 and hangs on SIZE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "scenarios/frameworks/shell/arithmetic.h"
#include "scenarios/frameworks/shell/script.h"
#include "scenarios/frameworks/shell/syntax.h"
#include "sim/text.h"

namespace stepcast {

// Limits of what is followed: characters of text that is made, and statements that are carried out.
constexpr size_t kMostCharacters = 16'000'000, kMostStatements = 400'000;
constexpr size_t kLongestText = 250'000;
constexpr int kMostCalls = 30;
constexpr size_t kMostRounds = 1000;
// What copying a variable or a name costs, in characters, and how many comparisons cost one.
constexpr size_t kCopied = 8, kComparisons = 8;

// An open value in a text: a number between these two, which no script has.
constexpr char kOpenBegins = '\x01', kOpenEnds = '\x02';

inline bool has_open(std::string_view text) {
  return text.find(kOpenBegins) != std::string_view::npos;
}
// "--name".
inline bool is_option(std::string_view word) {
  return word.size() > 2 && word.starts_with("--") && is_shell_name_start(word[2]);
}

class ShellReader {
 public:
  ShellReader(const SourceRef& source, const ShellGiven& given, const ShellFiles& files);
  ShellScript read();

 private:
  using Texts = std::vector<ShellText>;
  using Items = std::vector<std::pair<std::string, ShellText>>;
  struct Variable {
    Items items{};
    bool is_array = false;
  };
  using Variables = std::map<std::string, Variable, std::less<>>;
  using Changes = std::map<std::string, std::optional<Variable>, std::less<>>;
  using Positional = std::shared_ptr<const Texts>;
  enum class Truth : uint8_t { no, yes, unknown };
  // What a test says; `unset`: if the variables that nothing sets are empty.
  struct Outcome {
    Truth truth = Truth::yes, unset = Truth::yes;
    std::set<std::string> names{};
    bool is_test = false;
  };
  enum class Ends : uint8_t { no, round, loop, function, script };
  // An entry of the table of open values.
  struct Open {
    std::string written;
    std::set<std::string> names;
    bool is_unset = false;  // nothing sets it
    std::vector<std::vector<ShellText>> may_be{};
  };

  static Truth truth_of(bool b) { return b ? Truth::yes : Truth::no; }
  static Truth negated(Truth t);

  // --- texts, open values, variables: reader.cc

  static ShellText plain(std::string_view text, const Mark& mark);
  static Variable scalar(ShellText text);
  void set_positional(Texts words);

  // Without what could be taken for an open value.
  static std::string without_marks(std::string text);

  // A source as text with places.
  const ShellText& whole(const SourceRef& source);
  bool spend(size_t characters);
  void spend_copy(const Variable& v) { spend((v.items.size() + 1) * kCopied); }
  bool fits(std::string_view pattern, std::string_view text);
  bool may_go_on(const Mark& mark);
  ShellText open(Open o, const Mark& mark);
  ShellText unset(const std::string& name, const std::string& written, const Mark& mark);

  // Calls use(open, begin, end) for each open value in the text.
  template <typename Use>
  void each_open(std::string_view text, Use use) const {
    for (size_t at = text.find(kOpenBegins); at != text.npos; at = text.find(kOpenBegins, at)) {
      const size_t end = text.find(kOpenEnds, at);
      if (end == text.npos) return;
      size_t index = 0;
      for (const char c : text.substr(at + 1, end - at - 1))
        index = index * 10 + static_cast<size_t>(c - '0');
      if (index < opens_.size()) use(index, at, end + 1);
      at = end + 1;
    }
  }
  void add_names(std::string_view text, std::set<std::string>& names) const;

  // The open value that the text is, if it is nothing else.
  std::optional<size_t> only_open(std::string_view text) const;

  // As it is written; unset variables may be left out.
  std::string shown(std::string_view text, bool without_unset = false) const;

  // The text where variables that nothing sets are empty; $1 is meant to be given.
  std::string emptied(std::string_view text) const;
  ShellWord word_of(const ShellText& t);

  // An open value for the reader of the script, made once: values may hang on each other.
  std::shared_ptr<const ShellOpen> described(size_t index);
  const Variable* find(std::string_view name) const;

  // The variable, to be changed.
  Variable& change(const std::string& name);
  void assign(const std::string& name, Variable value);
  void unset_variable(const std::string& name);
  static ShellText joined(const Items& items);

  // "#SBATCH --nodes=16" sets what Slurm tells the job.
  void read_scheduler_comments(std::string_view text);

  // --- words: expansion.cc

  enum class Split : uint8_t { words, no, document };

  static void put(ShellText& current, bool& any, char c, const Mark& mark);

  // The words that a word of the script becomes.
  std::vector<ShellText> expand(const ShellText& in, ShellRange range, Split split);
  template <typename Finish>
  static void split_into(const ShellText& value, ShellText& current, bool& any, Finish finish) {
    for (size_t at = 0; at < value.text.size(); ++at) {
      if (is_shell_space(value.text[at]))
        finish();
      else
        put(current, any, value.text[at], value.mark_at(at));
    }
  }
  static std::vector<ShellText> split_text(const ShellText& value);
  ShellText one_text(const ShellText& in, ShellRange range, Split split = Split::no);

  // At '$' or '`': what it becomes, and the place behind it; the same place if it stands for
  // itself.
  size_t substitute(const ShellText& in, size_t at, size_t end, std::vector<ShellText>& values,
                    bool& is_list);

  // The value of $NAME or $1, open if nothing sets it.
  void value_of(const std::string& name, const Mark& mark, std::vector<ShellText>& values);

  // Inside ${...}.
  void braces(const ShellText& in, ShellRange inside, ShellRange all,
              std::vector<ShellText>& values, bool& is_list);
  std::set<std::string> names_in(std::string_view text) const;

  // ${NAME:-word} and its relatives.  False if what it becomes is not known.
  bool alter(const ShellText& in, ShellRange rest, std::string_view operation, Variable& v,
             bool known, std::vector<ShellText>& values, const Mark& mark);

  // What the commands in $(...) print, where nothing has to be run for it.
  ShellText printed(const ShellText& in, ShellRange inside, ShellRange all);

  // --- arithmetic: numbers.cc

  // $((...)).
  ShellText computed(const ShellText& in, ShellRange inside, ShellRange all);

  // What an arithmetic text is; what it hangs on, if that is not known.
  std::optional<int64_t> number_of(const ShellText& in, ShellRange inside,
                                   std::set<std::string>& names, bool unset_is_0 = false);

  // "A *= 2" and "A++" as they are; of more than that the variables are open.
  std::optional<int64_t> set_number(const ShellAssigned& assigned, const Mark& mark,
                                    std::set<std::string>& names);
  void add_names_in_arithmetic(std::string_view text, std::set<std::string>& names) const;

  // ((...)): what it sets, and whether it is not 0.
  Outcome arithmetic(const ShellText& in, ShellRange inside);

  // --- statements, one after the other: statements.cc

  struct Capture {
    ShellText text{};
    bool is_known = true;
    std::set<std::string> names{};  // that what is not known hangs on
  };
  struct Branch {
    Outcome condition;
    std::function<void()> body;
  };

  void follow(const ShellText& in, const std::vector<ShellText>* arguments);

  // The statements of a text.  They are kept: functions are defined by them, and what is in a loop
  // is read once.
  const ShellNodes& parsed(const ShellText& in, ShellRange range);

  // In "( ... )" and "$( ... )": functions that are defined there are not known outside.
  template <typename What>
  void run_in_subshell(What what) {
    spend(functions_.size() * kCopied);
    const auto functions = functions_;
    run_apart(what);
    functions_ = functions;
  }

  // Carries `what` out, and undoes what it did to variables.
  template <typename What>
  Changes run_apart(What what) {
    const Ends ends = ends_;
    const Positional positional = positional_;
    journals_.emplace_back();
    what();
    Changes changes;
    const Changes journal = std::move(journals_.back());
    journals_.pop_back();
    for (const auto& [name, old] : journal) {
      const auto now = variables_.find(name);
      if (now != variables_.end()) spend_copy(now->second);
      changes[name] = now == variables_.end() ? std::nullopt : std::optional(now->second);
      if (old)
        variables_[name] = *old;
      else if (now != variables_.end())
        variables_.erase(now);
    }
    spend(journal.size());
    apart_positional_ = positional_;
    positional_ = positional;
    apart_ended_ = ends_;
    ends_ = ends;
    return changes;
  }
  void apply(const Changes& changes);
  Outcome run(const ShellNodes& nodes);

  // "and" of two truths, or "or".
  static Truth both(Truth a, Truth b, bool is_and);

  // What a list of commands in a condition says.
  Outcome condition(const ShellNodes& nodes, bool of_loop = false);
  Outcome run_one(const ShellNode& node);
  static size_t place_of(const ShellNode& node);

  // --- branches and loops: branches.cc

  // One of several branches: that which holds, or all that may.
  void branch(const std::vector<Branch>& branches);
  static std::string key_of(const std::optional<Variable>& v);

  // What branches of which any may hold leave.
  void merge(const std::vector<Changes>& outcomes, const std::set<std::string>& names,
             std::optional<size_t> if_unset);
  bool holds_options(const std::vector<std::optional<Variable>>& values) const;

  // A variable with one of these values.  What they begin with alike stays known.
  Variable one_of(const std::vector<std::optional<Variable>>& values, const std::string& name,
                  const std::set<std::string>& names);
  void choice(const ShellNode& node);

  // Whether a text fits a pattern.
  Outcome compared(const std::string& text, const std::string& pattern);
  void each(const ShellNode& node);

  // After a round: whether it was the last.
  bool leaves_loop();

  // for ((i = 0; i < 4; i++))
  void counted(const ShellNode& node);
  void loop(const ShellNode& node);
  void leave_unknown_loop();

  // A loop of which is not known how often it goes round: what it sets is open.
  void follow_in_part(const ShellNode& node, const std::string& name);

  // A variable that is set to what is not known; it can be given under its name.
  Variable unknown(const std::string& name, const Mark& mark);

  // --- what a test says: conditions.cc

  // "[ a = b ]", "[[ a && b ]]", "test -n a"; `words` without the brackets.
  Outcome test(const std::vector<std::string>& words);
  Outcome test_or(const std::vector<std::string>& w, size_t& at, int depth);
  Outcome test_and(const std::vector<std::string>& w, size_t& at, int depth);
  static Outcome join_tests(const Outcome& a, const Outcome& b, bool is_and);
  static bool is_binary(std::string_view op);
  Outcome test_one(const std::vector<std::string>& w, size_t& at, int depth);

  // A variable that nothing sets is empty, and so is an argument that is not given.
  Outcome is_empty(const std::string& value) const;
  Outcome binary(const std::string& a, const std::string& op, const std::string& b);
  Truth ordered(const std::string& a, const std::string& op, const std::string& b);

  // --- commands: commands.cc

  // "NAME=", "NAME+=" or "NAME[key]=" at the front of a word.
  struct Assignment {
    std::string name;
    std::optional<ShellRange> key{};
    bool appends = false;
    ShellRange value{};
  };

  static std::optional<Assignment> assignment(const ShellText& in, ShellRange r);
  void assign(const ShellText& in, const Assignment& a, bool exports);

  // The elements between "(" and ")".
  Variable array(const ShellText& in, ShellRange inside);
  Outcome command(const ShellNode& node);
  Outcome tested(const ShellNode& node);
  static bool is_program(std::string_view word, std::string_view name);

  // A program, a function or what the shell itself does.
  Outcome call(const ShellNode& node, std::vector<ShellText> words);

  // "sbatch --nodes=16 job.sh".
  void tell_slurm(std::vector<ShellText>& arguments);

  // Several words as one text that is read again.
  const ShellText& joined_text(const std::vector<ShellText>& words);

  // A variable that is local to the function: when that ends, it is what it was.
  void keep_for_caller(const std::string& name);
  Outcome call_function(const ShellNode& node, const std::vector<ShellText>& arguments);

  // Follows a file beside the script.  Only the last part of the name that is known counts.
  bool read_file(const ShellText& name, const std::vector<ShellText>* arguments);

  // --- what commands read and print: input.cc

  static bool is_variable_name(std::string_view name);
  static int small_number(const std::string& text);

  // "read A B <<< text" and "mapfile A": of what is not in the script the names are open.
  void read_input(const ShellNode& node, const Texts& arguments, const Mark& mark, bool lines);
  ShellText document_of(const ShellNode& node);

  // In $(...): what echo and the like print.
  Outcome print(const ShellNode& node, const std::vector<ShellText>& words);

  SourceRef source_;
  ShellFiles files_;
  std::vector<SourceRef> sources_;
  std::deque<ShellText> inputs_;
  std::map<std::tuple<const ShellText*, size_t, size_t>, ShellNodes> parsed_;
  size_t nodes_left_ = kMostStatements;
  std::vector<Open> opens_;
  std::vector<std::shared_ptr<const ShellOpen>> described_;
  std::map<std::string, size_t> unset_;  // open values of variables that nothing sets
  Variables variables_;
  std::vector<Changes> journals_;  // what variables were before each branch that is followed
  std::map<std::string, const ShellNode*, std::less<>> functions_;
  std::vector<Changes> locals_;  // what local variables were before each function that is followed
  Positional positional_;        // shared: it is put back after every call and branch
  std::set<std::string, std::less<>> fixed_;  // that the user gives
  std::vector<std::set<std::string>> under_;  // what the branches hang on that are followed
  Capture* capture_ = nullptr;
  Ends ends_ = Ends::no;
  Ends apart_ended_ = Ends::no;  // what run_apart() left, and the arguments
  Positional apart_positional_;
  int leaves_ = 0;          // loops that `break` or `continue` is about
  bool may_leave_ = false;  // a branch that may be taken ends a loop or its round
  bool trains_ = false;     // a command that trains has been met
  size_t spent_ = 0, statements_ = 0;
  int nested_ = 0, follows_ = 0, calls_ = 0, depth_ = 0, sourced_ = 0;
  ShellScript script_;
};

}  // namespace stepcast
