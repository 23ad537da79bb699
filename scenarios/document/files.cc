// SPDX-License-Identifier: Apache-2.0
// From files and texts to trees of values.
//
// A text is parsed by yaml-cpp's event interface: the events arrive while it is scanned, so every
// limit stops the parser at once, before it has recursed or copied much.  yaml-cpp's own node tree
// is not used: it keeps the first of two equal keys silently and expands aliases without a limit.
#include "scenarios/document/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <istream>
#include <map>
#include <mutex>
#include <numeric>
#include <span>
#include <streambuf>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "sim/system_error.h"
#include "sim/text.h"

namespace stepcast {

// ------------------------------------------------------------------------------------------ a text

namespace {

constexpr size_t kMostBytes = size_t{16} << 20;
constexpr size_t kMostNodes = 1'000'000;

struct Stop {};  // the problem has been added; parsing cannot go on

// The text as a stream, not copied.
struct ViewBuffer : std::streambuf {
  explicit ViewBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());  // only read
    setg(begin, begin, begin + text.size());
  }
};

// Blanks that YAML reads as letters: no-break spaces and others that pages have.
bool is_other_blank(uint32_t c) {
  return c == 0xA0 || (c >= 0x2000 && c <= 0x200A) || c == 0x202F || c == 0x205F || c == 0x3000;
}

// Where in `text` such blanks may stand in the place of one that YAML takes: at the begin of a line
// or behind what a blank follows.  Those that begin at `end` or before it.
std::vector<size_t> other_blanks(std::string_view text, size_t end) {
  std::vector<size_t> found;
  bool expected = true, comment = false;
  for (size_t i = 0; i < text.size() && i <= end;) {
    const CodePoint point = decode_utf8(text, i);
    const bool blank = point.value == ' ' || point.value == '\t';
    if (point.value == '\n') {
      expected = true;
      comment = false;
    } else if (point.value == '#' && (i == 0 || text[i - 1] == ' ' || text[i - 1] == '\n')) {
      comment = true;
    } else if (is_other_blank(point.value)) {
      if (expected && !comment) found.push_back(i);
    } else if (!blank) {
      expected = std::string_view(":,-?{[").find(text[i]) != std::string_view::npos;
    }
    i += point.length;
  }
  return found;
}

void refuse_other_blank(Problems& problems, std::string_view text, size_t at, const Mark& mark) {
  const CodePoint point = decode_utf8(text, at);
  problems.add(
      "E100",
      fmt::format("{} (U+{:04X}) stands where YAML takes a space",
                  point.value == 0xA0 || point.value == 0x202F ? "a no-break space" : "a blank",
                  point.value),
      mark, static_cast<int>(point.length), {},
      "type an ordinary space: text from a page may have others");
}

// Builds the tree.  A stack of open collections; a finished one moves into the one around it.
class TreeBuilder : public YAML::EventHandler {
 public:
  // `repeated`: of a file of another tool, whose anchors, tags and repeated keys are taken; null:
  // of a scenario, where they are refused.
  TreeBuilder(Problems& problems, const SourceRef& source, std::vector<RepeatedKey>* repeated)
      : problems_(problems), source_(source), text_(source->text), repeated_(repeated) {}

  // Nothing if what was meant cannot be told.
  Value take() { return lone_key_ ? Value{} : std::move(root_); }
  int documents() const { return documents_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1)
      stop("E100", "there is a second document in the file", at(mark),
           "a scenario is one document: remove '---' and what follows");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    finish(node(mark), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (repeated_ == nullptr) refuse_alias(at(mark));
    const auto found = anchored_.find(anchor);
    if (found == anchored_.end()) stop("E104", "this alias has no value yet", at(mark));
    nodes_ += found->second.nodes;  // copies count, so that aliases of aliases do not explode
    finish(node(mark), YAML::NullAnchor, &found->second.value);
  }
  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    if (repeated_ != nullptr) return;
    stop("E104", "anchors are not allowed here: '&" + name + "'", at(mark),
         "write the value out, or share it through `extends`");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    refuse_tag(mark, tag);
    refuse_open_quote(mark);
    Value v = node(mark);
    v.kind = Value::Kind::scalar;
    v.quoted = tag == "!";  // how yaml-cpp marks what is not plain
    v.text = text;
    finish(std::move(v), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, Value::Kind::sequence, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, Value::Kind::mapping, anchor);
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
    YAML::anchor_t anchor = YAML::NullAnchor;
    size_t nodes_before = 0;
    std::vector<Value> merged{};  // what `<<` names
  };
  struct Anchored {
    Value value;
    size_t nodes = 1;
  };

  Value node(const YAML::Mark& mark) {
    if (++nodes_ > kMostNodes)
      stop("E106", fmt::format("the text has more than {} values", kMostNodes), at(mark));
    Value v;
    v.mark = at(mark);
    begin_ = static_cast<size_t>(std::max(mark.pos, 0));
    return v;
  }

  void open(const YAML::Mark& mark, const std::string& tag, Value::Kind kind,
            YAML::anchor_t anchor) {
    refuse_tag(mark, tag);
    if (stack_.size() >= kMostNesting) stop("E105", "nested deeper than 64 levels", at(mark));
    Value v = node(mark);
    v.kind = kind;
    stack_.push_back({std::move(v), false, {}, {}, 0, anchor, nodes_});
  }

  void close() {
    Open done = std::move(stack_.back());
    stack_.pop_back();
    Value& v = done.value;
    if (v.kind == Value::Kind::mapping) drop_repeated_keys(v);
    for (const Value& under : done.merged)
      for (const Member& m : under.members)
        if (v.find(m.key) == nullptr) v.members.push_back(m);
    finish(std::move(v), done.anchor, nullptr, nodes_ - done.nodes_before + 1);
  }

  // What `<<: *base` and `<<: [*a, *b]` name.  Nothing but mappings can be merged.
  static void collect_merged(const Value& v, std::vector<Value>& merged) {
    if (v.is_mapping()) merged.push_back(v);
    for (const Value& item : v.items)
      if (item.is_mapping()) merged.push_back(item);
  }

  // An alias nested deeper than a text may be is refused like the text.
  size_t depth_of(const Value& v) const {
    size_t deepest = 0;
    for (const Value& item : v.items) deepest = std::max(deepest, depth_of(item));
    for (const Member& m : v.members) deepest = std::max(deepest, depth_of(m.value));
    return deepest + 1;
  }

  void finish(Value v, YAML::anchor_t anchor, const Value* copied = nullptr, size_t nodes = 1) {
    if (copied != nullptr) {
      const Mark mark = v.mark;
      if (stack_.size() + depth_of(*copied) > kMostNesting)
        stop("E105", "nested deeper than 64 levels", mark);
      v = *copied;
    }
    if (anchor != YAML::NullAnchor && repeated_ != nullptr) {
      nodes_ += nodes;
      anchored_[anchor] = {v, nodes};
    }
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
      if (v.text == "<<" && !v.quoted && repeated_ == nullptr)
        stop("E104", "merge keys are not allowed here: '<<'", v.mark,
             "write the values out, or share them through `extends`");
      if (!v.quoted && repeated_ == nullptr) refuse_blank_in_key(v);
      around.has_key = true;
      around.key = std::move(v.text);
      around.key_mark = v.mark;
      around.key_begin = begin_;
    } else {
      if (v.kind == Value::Kind::null) refuse_lone_key(around);
      around.has_key = false;
      if (repeated_ != nullptr && around.key == "<<") return collect_merged(v, around.merged);
      around.value.members.push_back({std::move(around.key), around.key_mark, std::move(v)});
    }
  }

  void refuse_blank_in_key(const Value& key) {
    const std::vector<size_t> blanks = other_blanks(key.text, key.text.size());
    if (blanks.empty()) return;
    const size_t at = blanks.back();
    Mark mark = key.mark;
    mark.column += static_cast<int>(at);
    refuse_other_blank(problems_, key.text, at, mark);
    throw Stop{};
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
      if (repeated_ != nullptr) {
        Member& kept = v.members[order[first]];
        const bool changes = to_flow(m.value) != to_flow(kept.value);
        repeated_->push_back({m.key, m.key_mark, changes});
        if (changes) kept = m;
        continue;
      }
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
    if (repeated_ != nullptr) return;
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
  std::vector<RepeatedKey>* repeated_;
  std::map<YAML::anchor_t, Anchored> anchored_;
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

// `text` with a space for each of `blanks`, and how many bytes shorter it is.
std::pair<std::string, size_t> with_spaces(std::string_view text, std::span<const size_t> blanks) {
  std::string changed;
  size_t begin = 0;
  for (const size_t at : blanks) {
    changed.append(text.substr(begin, at - begin)).append(1, ' ');
    begin = at + decode_utf8(text, at).length;
  }
  changed.append(text.substr(begin));
  const size_t fewer = text.size() - changed.size();
  return {std::move(changed), fewer};
}

// Whether the parser comes beyond `pos`, where it stops in `text`, if there are spaces in the place
// of `blanks`, all of which are before it.
bool goes_further(std::string_view text, size_t pos, std::span<const size_t> blanks,
                  bool of_scenario) {
  Problems unsaid;
  auto [changed, fewer] = with_spaces(text, blanks);
  const SourceRef source = unsaid.add_source({{}, std::move(changed)});
  std::vector<RepeatedKey> repeated;
  TreeBuilder builder(unsaid, source, of_scenario ? nullptr : &repeated);
  ViewBuffer buffer(source->text);
  std::istream stream(&buffer);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Stop&) {  // YAML takes it, though a scenario may not
  } catch (const YAML::Exception& e) {
    return static_cast<size_t>(std::max(e.mark.pos, 0)) + fewer > pos;
  }
  return true;
}

// The blank that the parser stops for at `pos` of `text`; npos: it stops for something else, as
// blanks in quotes and in block texts are letters.  If it goes further with spaces for the last
// blanks, the first of the fewest of them is it.
size_t blamed_blank(std::string_view text, size_t pos, bool of_scenario) {
  const std::vector<size_t> all = other_blanks(text, pos);
  const auto further = [&](size_t first) {
    return goes_further(text, pos, std::span(all).subspan(first), of_scenario);
  };
  if (all.empty() || !further(0)) return std::string_view::npos;
  size_t blamed = 0, beyond = all.size();
  while (beyond - blamed > 1) {
    const size_t middle = blamed + (beyond - blamed) / 2;
    (further(middle) ? blamed : beyond) = middle;
  }
  return all[blamed];
}

}  // namespace

namespace {

Value parse_text(Problems& problems, const SourceRef& source, std::vector<RepeatedKey>* repeated) {
  const std::string& text = source->text;
  if (text.size() > kMostBytes) {
    problems.add(
        "E106",
        fmt::format("the text is larger than {} MiB: {} bytes", kMostBytes >> 20, text.size()),
        Mark{source, 0, 0});
    return {};
  }
  if (!is_text(problems, source)) return {};

  TreeBuilder builder(problems, source, repeated);
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
    } else if (const size_t blank = blamed_blank(text, pos, repeated == nullptr);
               blank != std::string::npos) {
      const std::string_view before = std::string_view(text).substr(0, blank);
      const size_t line = before.rfind('\n') + 1;  // npos + 1 = 0
      refuse_other_blank(problems, text, blank,
                         {source, static_cast<int>(std::ranges::count(before, '\n')) + 1,
                          static_cast<int>(blank - line) + 1});
    } else {
      const Mark mark = builder.at(e.mark);
      problems.add("E100", "this is not valid YAML: " + e.msg, mark, 1, {},
                   advice(source->line(mark.line), e.msg));
    }
  }
  return {};
}

}  // namespace

Value parse_yaml(Problems& problems, const SourceRef& source) {
  return parse_text(problems, source, nullptr);
}

Value parse_foreign_yaml(Problems& problems, const SourceRef& source,
                         std::vector<RepeatedKey>& repeated) {
  return parse_text(problems, source, &repeated);
}

namespace {

// Of a value without sources: that they are in.
void place_in(const SourceRef& source, Value& value) {
  if (value.mark.line > 0) value.mark.source = source;
  for (Value& item : value.items) place_in(source, item);
  for (Member& m : value.members) {
    m.key_mark.source = source;
    place_in(source, m.value);
  }
}

// Nothing if something is wrong with the text.
const Value* parsed_once(std::string_view text) {
  static std::mutex mutex;
  static std::map<std::string_view, Value> parsed;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = parsed.try_emplace(text);
  if (is_new) {
    Problems problems;
    Value value =
        parse_yaml(problems, problems.add_source({{}, std::string(text), Source::Kind::preset}));
    place_in(nullptr, value);
    if (!problems.any()) at->second = std::move(value);
  }
  return at->second.kind != Value::Kind::null ? &at->second : nullptr;
}

}  // namespace

Value parse_embedded(Problems& problems, std::string name, std::string_view text) {
  const SourceRef source =
      problems.add_source({std::move(name), std::string(text), Source::Kind::preset});
  const Value* known = parsed_once(text);
  if (known == nullptr) return parse_yaml(problems, source);
  Value value = *known;
  place_in(source, value);
  return value;
}

// --------------------------------------------------------------------------------- files of a load

namespace {

namespace fs = std::filesystem;

// Of a file, and of all files of a scenario together: what is read within seconds.
constexpr size_t kMostFileBytes = size_t{64} << 20;
constexpr size_t kMostBytesTogether = size_t{128} << 20;
constexpr size_t kMostExtends = 8;
constexpr int kMostFiles = 64;

struct FileText {
  std::optional<std::string> text;
  std::string why;       // it cannot be read
  bool special = false;  // it is a directory, device, pipe or socket
  size_t too_large = 0;  // bytes of a file that is larger than allowed
};

// Reads a regular file of at most kMostFileBytes.  Never waits: a pipe without a writer is refused
// like any other special file.
FileText read_regular(const std::string& path) {
  FileText result;
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) {
    result.why = system_error_text(errno);
    return result;
  }
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    result.why = system_error_text(errno);
  } else if (!S_ISREG(status.st_mode)) {
    result.special = true;
    result.why = S_ISDIR(status.st_mode) ? "it is a directory" : "it is not a regular file";
  } else {
    std::string text;
    constexpr size_t kChunk = 65536;
    ssize_t got = 1;
    while (got > 0 && text.size() <= kMostFileBytes) {
      const size_t old = text.size();
      text.resize(old + kChunk);
      do got = ::read(fd, text.data() + old, kChunk);
      while (got < 0 && errno == EINTR);
      text.resize(old + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    }
    if (got < 0) {
      result.why = system_error_text(errno);
    } else if (text.size() > kMostFileBytes) {
      result.too_large = std::max(text.size(), static_cast<size_t>(status.st_size));
      result.why =
          fmt::format("it has {} bytes, more than {} MiB", result.too_large, kMostFileBytes >> 20);
    } else {
      result.text = std::move(text);
    }
  }
  ::close(fd);
  return result;
}

std::string real_path(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(fs::absolute(path, error), error);
  return (error ? path.lexically_normal() : real).string();
}

bool is_below(const std::string& path, const std::string& root) {
  const fs::path relative = fs::path(path).lexically_relative(root);
  return !relative.empty() && *relative.begin() != "..";
}

// The keys of Hugging Face's config.json, and none that a scenario must have.
bool is_config_json(const Value& file) {
  const auto has = [&](std::string_view key) { return file.find(key) != nullptr; };
  return (has("model_type") || has("num_hidden_layers") || has("hidden_size")) && !has("model") &&
         !has("cluster") && !has("batch") && !has("extends");
}

constexpr const char* kOfAnAnswer = "name the scenario that the answer is of";

bool mentions_training(std::string_view line) {
  if (line.substr(0, line.find_first_not_of(" \t") + 1).ends_with('#')) return false;
  line = line.substr(0, line.find(" #"));
  return line.find("--num-layers") != line.npos || line.find("pretrain_") != line.npos;
}

// A shell script, or a command line of Megatron's: no mapping, or it would be a scenario.
bool is_script(const std::string& text) {
  std::string_view rest = text;
  const std::string_view first = rest.substr(0, rest.find('\n'));
  bool found = first.starts_with("#!") && first.find("sh") != first.npos;
  while (!found && !rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    found = mentions_training(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (!found) return false;
  Problems none;
  return !parse_yaml(none, none.add_source({{}, text})).is_mapping();
}

}  // namespace

std::string name_of_page(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.find_first_not_of(kBlankCharacters), text.size()));
  constexpr size_t kHead = 4000;  // where the page names what made it
  const std::string head = lower_case(text.substr(0, kHead));
  if (!head.starts_with("<!doctype html") && !head.starts_with("<html")) return {};
  return head.find("<meta name=\"stepcast-") != head.npos ? "a report of Stepcast"
                                                          : "a page (HTML)";
}

bool is_json_answer(const Value& mapping) {
  const auto has = [&](std::string_view key) { return mapping.find(key) != nullptr; };
  if (has("error") && has("errors")) return true;
  // Other tools have versions of their files, too.
  if (!has("schema_version")) return false;
  return (has("version") && (has("scenario") || has("rows") || has("cases"))) ||
         (has("gpu") && (has("gpus") || has("parameters")));
}

ScenarioFiles::ScenarioFiles(Problems& problems, const std::string& root)
    : problems_(problems), root_(root.empty() ? root : real_path(root)), shown_root_(root) {}

ScenarioFiles::ScenarioFiles(const ScenarioFiles& other, Problems& problems)
    : problems_(problems),
      root_(other.root_),
      shown_root_(other.shown_root_),
      files_(other.files_),
      scenarios_(other.scenarios_),
      bytes_(other.bytes_),
      named_(other.named_),
      incomplete_(other.incomplete_) {}

SourceRef ScenarioFiles::add(std::string text, std::string name, std::string real) {
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);  // byte order mark
  bytes_ += text.size();
  SourceRef source =
      problems_.add_source({std::move(name), std::move(text), Source::Kind::file, std::move(real)});
  files_[source->path] = source;
  return source;
}

SourceRef ScenarioFiles::add_first(std::string text, const std::string& name,
                                   const std::string& path) {
  const std::string real = real_path(path.empty() ? "." : path);
  if (root_.empty()) {
    root_ = fs::path(real).parent_path().string();
    shown_root_ = fs::path(path).parent_path().string();
  }
  return add(std::move(text), name, real);
}

SourceRef ScenarioFiles::open_first(const std::string& path) {
  FileText file = read_regular(path);
  if (file.text) return add_first(std::move(*file.text), path, path);
  const SourceRef source = problems_.add_source({path, {}});
  problems_.add(file.too_large > 0 ? "E106" : "E101",
                fmt::format("cannot read '{}': {}", path, file.why), Mark{source, 0, 0});
  return {};
}

std::string ScenarioFiles::place_of(const std::string& path, const Mark& from) const {
  // What --set names, or a preset, is relative to the root.
  const bool in_file = from.source != nullptr && !from.source->path.empty();
  return real_path((in_file ? fs::path(from.source->path).parent_path() : fs::path(root_)) / path);
}

SourceRef ScenarioFiles::open(const std::string& path, const Mark& from) {
  const auto refuse = [&](const char* code, std::string message, std::string help = {}) {
    problems_.add(code, std::move(message), from, static_cast<int>(path.size()), {},
                  std::move(help));
    return SourceRef{};
  };
  const bool in_file = from.source != nullptr && !from.source->path.empty();
  const std::string real = place_of(path, from);
  if (path.empty() || !is_below(real, root_))
    return refuse("E111", fmt::format("'{}' is outside the folder of the scenario", path),
                  "name a file below it, relative to the file this stands in, or a folder that has "
                  "both: --root DIR");
  if (++named_ > kMostFiles)
    return refuse("E111", fmt::format("a scenario names more than {} files", kMostFiles));
  if (const auto known = files_.find(real); known != files_.end()) return known->second;
  FileText file = read_regular(real);
  if (!file.text) {
    const char* code = file.too_large > 0 ? "E106" : file.special ? "E111" : "E101";
    const fs::path around =
        in_file ? fs::path(from.source->name).parent_path() : fs::path(shown_root_);
    return refuse(code, fmt::format("cannot read '{}': {}", path, file.why),
                  file.too_large > 0 ? std::string()
                                     : fmt::format("{}; tried: {}",
                                                   in_file ? "paths are relative to the file they "
                                                             "stand in"
                                                           : "a path of --set is relative to the "
                                                             "folder of the scenario, or to --root",
                                                   (around / path).lexically_normal().string()));
  }
  if (bytes_ + file.text->size() > kMostBytesTogether)
    return refuse("E106",
                  fmt::format("the files of the scenario have {} bytes with '{}', more than {} MiB",
                              bytes_ + file.text->size(), path, kMostBytesTogether >> 20));
  const fs::path beside = fs::path(in_file ? from.source->name : "").parent_path();
  return add(std::move(*file.text), (beside / path).lexically_normal().string(), real);
}

std::string ScenarioFiles::shown(const Source& source) const {
  return fs::path(source.path).lexically_relative(root_).string();
}

std::vector<SourceRef> ScenarioFiles::named_data() const {
  std::vector<SourceRef> all;
  for (const auto& [path, source] : files_)
    if (!scenarios_.contains(path)) all.push_back(source);
  return all;
}

std::vector<std::string> ScenarioFiles::paths() const {
  std::vector<std::string> all;
  for (const auto& [path, source] : files_) all.push_back(path);
  return all;
}

Value ScenarioFiles::load(const SourceRef& source) {
  std::vector<SourceRef> stack;
  return load(source, stack);
}

bool ScenarioFiles::refuse_other_file(const SourceRef& source, const Value* parsed) {
  const Source& file = *source;
  const std::string name = file.name.starts_with('<') ? "FILE" : file.name;
  if (parsed != nullptr && is_config_json(*parsed))
    problems_.add(
        "E107", "this is a config.json: it says what a model is, and nothing of a run",
        parsed->mark, 1, {},
        "-s cluster=dgx-h100 -s 'batch={global: 64, micro: 1, seq: 4096}' says the run, and "
        "-s parallel.tp=8 how it is laid out; `stepcast size " +
            name + "` says what the model takes; in a scenario it is model: {hf: " + name + '}');
  else if (parsed != nullptr && is_json_answer(*parsed))
    problems_.add("E107", "this is an answer of Stepcast (--json), not a scenario", parsed->mark, 1,
                  {}, kOfAnAnswer);
  else if (const std::string page = parsed == nullptr ? name_of_page(file.text) : std::string();
           !page.empty())
    problems_.add("E107", "this is " + page + ", not a scenario", {source, 1, 1}, 1, {},
                  kOfAnAnswer);
  else if (parsed == nullptr && is_script(file.text))
    problems_.add(
        "E107", "this is a script or a list of arguments, not a scenario", {source, 1, 1}, 1, {},
        "`stepcast import megatron-args " + name + "` writes the scenario of what it trains");
  else
    return false;
  incomplete_ = true;
  return true;
}

Value ScenarioFiles::load(const SourceRef& source, std::vector<SourceRef>& stack) {
  scenarios_.insert(source->path);
  if (refuse_other_file(source, nullptr)) return {};
  Value own = parse_yaml(problems_, source);
  if (refuse_other_file(source, &own)) return {};
  Value whole;
  whole.kind = Value::Kind::mapping;
  whole.mark = Mark{source, 1, 1};
  if (own.kind == Value::Kind::null) {
    incomplete_ = incomplete_ || problems_.any();
    return whole;
  }
  if (!own.is_mapping()) {
    incomplete_ = true;
    problems_.add("E107", "a scenario must be a mapping of sections", own.mark, 1, {},
                  "such as model: llama3-8b; `stepcast schema` lists all keys");
    return whole;
  }
  stack.push_back(source);
  if (const Value* extends = own.find("extends"); extends != nullptr) {
    if (extends->is_scalar()) extend(whole, *extends, stack);
    if (extends->is_mapping())
      problems_.add("E107", "'extends' must be a file or a list of files", extends->mark);
    for (const Value& word : extends->items) extend(whole, word, stack);
  }
  stack.pop_back();
  std::erase_if(own.members, [](const Member& m) { return m.key == "extends"; });
  merge(whole, std::move(own));
  return whole;
}

void ScenarioFiles::extend(Value& base, const Value& word, std::vector<SourceRef>& stack) {
  if (!word.is_scalar()) {
    problems_.add("E107", "'extends' must be a file or a list of files", word.mark);
    return;
  }
  const int length = static_cast<int>(word.text.size());
  const SourceRef source = open(word.text, word.mark);
  if (source == nullptr) incomplete_ = true;
  if (source == nullptr) return;
  std::string cycle;
  for (const SourceRef& s : stack)
    if (!cycle.empty() || s == source) cycle += shown(*s) + " -> ";
  incomplete_ = incomplete_ || !cycle.empty() || stack.size() >= kMostExtends;
  if (!cycle.empty()) {
    problems_.add("E110", "'extends' forms a cycle", word.mark, length, {}, cycle + shown(*source));
  } else if (stack.size() >= kMostExtends) {
    problems_.add("E111", fmt::format("'extends' is more than {} files deep", kMostExtends),
                  word.mark, length);
  } else {
    const auto [known, first] = loaded_.try_emplace(source.get());
    if (first) known->second = load(source, stack);
    merge(base, known->second);
  }
}

}  // namespace stepcast
