// SPDX-License-Identifier: Apache-2.0
// parse_yaml: yaml-cpp's event interface -> Value.
//
// The events arrive while the text is scanned, so every limit stops the parser at once, before it
// has recursed or copied much.  yaml-cpp's own node tree is not used: it keeps the first of two
// equal keys silently and expands aliases without a limit.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <istream>
#include <numeric>
#include <streambuf>

#include "scenarios/document/value.h"
#include "sim/text.h"

namespace stepcast {
namespace {

constexpr size_t kMostBytes = size_t{16} << 20;
constexpr size_t kMostNodes = 1'000'000;
constexpr size_t kMostNesting = 64;

struct Stop {};  // the problem has been added; parsing cannot go on

// The text as a stream, not copied.
struct ViewBuffer : std::streambuf {
  explicit ViewBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());  // only read
    setg(begin, begin, begin + text.size());
  }
};

// Builds the tree.  A stack of open collections; a finished one moves into the one around it.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(Problems& problems, const SourceRef& source)
      : problems_(problems), source_(source), text_(source->text) {}

  // Nothing if what was meant cannot be told.
  Value take() { return lone_key_ ? Value{} : std::move(root_); }
  int documents() const { return documents_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1)
      stop("E100", "there is a second document in the file", at(mark),
           "a scenario is one document: remove '---' and what follows");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { finish(node(mark)); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_alias(at(mark)); }
  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    stop("E104", "anchors are not allowed here: '&" + name + "'", at(mark),
         "write the value out, or share it through `extends`");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& text) override {
    refuse_tag(mark, tag);
    refuse_open_quote(mark);
    Value v = node(mark);
    v.kind = Value::Kind::scalar;
    v.quoted = tag == "!";  // how yaml-cpp marks what is not plain
    v.text = text;
    finish(std::move(v));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, Value::Kind::sequence);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, Value::Kind::mapping);
  }
  void OnMapEnd() override { close(); }

  [[noreturn]] void refuse_alias(const Mark& mark) {
    stop("E104", "aliases are not allowed here", mark,
         "write the value out, or share it through `extends`");
  }
  [[noreturn]] void stop(const char* code, std::string message, const Mark& mark,
                         std::string help = {}) {
    problems_.add(code, std::move(message), mark, 1, {}, std::move(help));
    throw Stop{};
  }
  Mark at(const YAML::Mark& mark) const {
    return {source_, std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1};
  }

 private:
  struct Open {
    Value value;
    bool has_key = false;
    std::string key;
    Mark key_mark;
    size_t key_begin = 0;  // in the text
  };

  Value node(const YAML::Mark& mark) {
    if (++nodes_ > kMostNodes)
      stop("E106", fmt::format("the text has more than {} values", kMostNodes), at(mark));
    Value v;
    v.mark = at(mark);
    begin_ = static_cast<size_t>(std::max(mark.pos, 0));
    return v;
  }

  void open(const YAML::Mark& mark, const std::string& tag, Value::Kind kind) {
    refuse_tag(mark, tag);
    if (stack_.size() >= kMostNesting) stop("E105", "nested deeper than 64 levels", at(mark));
    Value v = node(mark);
    v.kind = kind;
    stack_.push_back({std::move(v), false, {}, {}, 0});
  }

  void close() {
    Value v = std::move(stack_.back().value);
    stack_.pop_back();
    if (v.kind == Value::Kind::mapping) drop_repeated_keys(v);
    finish(std::move(v));
  }

  bool wants_key() const {
    return !stack_.empty() && stack_.back().value.kind == Value::Kind::mapping &&
           !stack_.back().has_key;
  }

  // Puts a finished value where it belongs.
  void finish(Value v) {
    if (stack_.empty()) {
      root_ = std::move(v);
      return;
    }
    // Not refused when it opened: yaml-cpp takes a bracket that is never closed for a key.
    if (wants_key() && v.kind != Value::Kind::scalar)
      stop("E100", "a key must be a plain word", v.mark);
    Open& around = stack_.back();
    if (around.value.kind == Value::Kind::sequence) {
      around.value.items.push_back(std::move(v));
    } else if (!around.has_key) {
      if (v.text == "<<" && !v.quoted)
        stop("E104", "merge keys are not allowed here: '<<'", v.mark,
             "write the values out, or share them through `extends`");
      around.has_key = true;
      around.key = std::move(v.text);
      around.key_mark = v.mark;
      around.key_begin = begin_;
    } else {
      if (v.kind == Value::Kind::null) refuse_lone_key(around);
      around.has_key = false;
      around.value.members.push_back({std::move(around.key), around.key_mark, std::move(v)});
    }
  }

  // {global:256} and {seq: 8,192} are keys without values to YAML; `key:` says that there is none.
  void refuse_lone_key(const Open& around) {
    const std::string_view written(text_);
    if (written.substr(around.key_begin, around.key.size()) != around.key) return;
    const size_t next = written.find_first_not_of(" \t", around.key_begin + around.key.size());
    if (next == std::string_view::npos || (text_[next] != ',' && text_[next] != '}')) return;
    const bool colon = around.key.find(':') != std::string::npos;
    const bool number = around.key.find_first_not_of("0123456789") == std::string::npos;
    lone_key_ = true;
    problems_.add("E100", "'" + around.key + "' is a key without a value", around.key_mark,
                  static_cast<int>(around.key.size()), {},
                  colon    ? "a space is missing after the ':'"
                  : number ? "numbers are written without commas"
                           : "write key: value; text with a comma in it stands in quotes");
  }

  void drop_repeated_keys(Value& v) {
    std::vector<size_t> order(v.members.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return v.members[a].key < v.members[b].key; });
    std::vector<bool> repeated(order.size(), false);
    size_t first = 0;
    for (size_t i = 1; i < order.size(); ++i) {
      const Member& m = v.members[order[i]];
      if (m.key != v.members[order[first]].key) {
        first = i;
        continue;
      }
      repeated[order[i]] = true;
      const Mark& earlier = v.members[order[first]].key_mark;
      problems_.add("E103", "'" + m.key + "' is given twice", m.key_mark,
                    static_cast<int>(m.key.size()), {},
                    fmt::format("first given at {}:{}", earlier.line, earlier.column));
    }
    if (std::find(repeated.begin(), repeated.end(), true) == repeated.end()) return;
    std::vector<Member> kept;
    kept.reserve(v.members.size());
    for (size_t i = 0; i < v.members.size(); ++i)
      if (!repeated[i]) kept.push_back(std::move(v.members[i]));
    v.members = std::move(kept);
  }

  // yaml-cpp gives "?" for no tag and "!" for a quoted scalar; a lone `!` before a plain one too.
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    const auto pos = static_cast<size_t>(std::max(mark.pos, 0));
    const bool written = pos < text_.size() && text_[pos] == '!';
    if (!written && (tag == "?" || tag == "!")) return;
    stop("E104", "tags are not allowed here", at(mark), "remove the word that begins with '!'");
  }

  // yaml-cpp lets a quote that is open at the end of the text pass.
  void refuse_open_quote(const YAML::Mark& mark) {
    const auto begin = static_cast<size_t>(std::max(mark.pos, 0));
    const char quote = begin < text_.size() ? text_[begin] : ' ';
    if (quote != '"' && quote != '\'') return;
    for (size_t i = begin + 1; i < text_.size(); ++i) {
      if (quote == '"' && text_[i] == '\\') {
        ++i;
      } else if (text_[i] == quote) {
        const bool doubled = quote == '\'' && i + 1 < text_.size() && text_[i + 1] == quote;
        if (!doubled) return;
        ++i;
      }
    }
    stop("E100", "this quote is never closed", at(mark));
  }

  Problems& problems_;
  SourceRef source_;
  const std::string& text_;
  std::vector<Open> stack_;
  Value root_;
  size_t begin_ = 0;  // of the value that was read last
  bool lone_key_ = false;
  size_t nodes_ = 0;
  int documents_ = 0;
};

// Characters that move the cursor, end a line or turn the direction of the text around: a message,
// or the file itself, would not say what it shows.
bool is_control(uint32_t c) {
  const bool line = c == '\t' || c == '\n' || c == '\r';
  return (c < 0x20 && !line) || (c >= 0x7F && c < 0xA0) || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069);
}

// YAML text is UTF-8 without control characters.  yaml-cpp would guess UTF-16 from NUL bytes and
// count its columns in something else.
bool is_text(Problems& problems, const SourceRef& source) {
  const std::string& text = source->text;
  Mark mark{source, 1, 1};
  for (size_t i = 0; i < text.size();) {
    const CodePoint point = decode_utf8(text, i);
    if (!point.valid || is_control(point.value)) {
      problems.add("E100",
                   point.valid ? fmt::format("there is a control character in the text: U+{:04X}",
                                             point.value)
                               : "this is not UTF-8 text",
                   mark, static_cast<int>(point.length));
      return false;
    }
    i += point.length;
    mark.column += static_cast<int>(point.length);
    if (point.value == '\n') {
      ++mark.line;
      mark.column = 1;
    }
  }
  return true;
}

// What is most often behind an error of yaml-cpp in `line`.
std::string advice(std::string_view line, std::string_view error) {
  const size_t indent = std::min(line.find_first_not_of(" \t"), line.size());
  if (line.substr(0, indent).find('\t') != std::string_view::npos)
    return "indent with spaces: YAML takes no tabs";
  if (error == "end of map not found" || error == "end of sequence not found")
    return "what belongs together begins in the same column";
  if (error == "end of map flow not found" || error == "end of sequence flow not found")
    return "a bracket is not closed";
  if (error == "illegal map value") return "text with ': ' in it stands in quotes";
  return {};
}

}  // namespace

Value parse_yaml(Problems& problems, const SourceRef& source) {
  const std::string& text = source->text;
  if (text.size() > kMostBytes) {
    problems.add(
        "E106",
        fmt::format("the text is larger than {} MiB: {} bytes", kMostBytes >> 20, text.size()),
        Mark{source, 0, 0});
    return {};
  }
  if (!is_text(problems, source)) return {};

  TreeBuilder builder(problems, source);
  ViewBuffer buffer(text);
  std::istream stream(&buffer);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
    return builder.take();
  } catch (const Stop&) {
  } catch (const YAML::Exception& e) {
    const auto pos = static_cast<size_t>(std::max(e.mark.pos, 0));
    if (pos < text.size() && text[pos] == '*' && e.msg.find("anchor") != std::string::npos) {
      problems.add("E104", "aliases are not allowed here", builder.at(e.mark), 1, {},
                   "write the value out, or share it through `extends`");
    } else {
      const Mark mark = builder.at(e.mark);
      problems.add("E100", "this is not valid YAML: " + e.msg, mark, 1, {},
                   advice(source->line(mark.line), e.msg));
    }
  }
  return {};
}

}  // namespace stepcast
