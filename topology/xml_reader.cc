// SPDX-License-Identifier: Apache-2.0
#include "topology/xml_reader.h"

#include <algorithm>

namespace stepcast {
namespace {

constexpr size_t kMostLevels = 64, kMostElements = 100'000, kMostAttributes = 64;

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == ':' || (static_cast<unsigned char>(c) & 0x80) != 0;
}

class XmlReader {
 public:
  XmlReader(std::string_view text, const ImportText& lines) : text_(text), lines_(lines) {}

  std::vector<XmlElement> read() {
    if (text_.starts_with("\xEF\xBB\xBF")) advance(3);
    for (;;) {
      while (at_ < text_.size() && text_[at_] != '<') {
        if (open_.empty() && !is_blank(text_[at_])) fail("text outside of any element");
        advance(1);
      }
      if (at_ == text_.size()) break;
      markup();
    }
    if (!open_.empty()) cut_off();
    if (elements_.empty()) fail("no element in this file", "E320");
    return std::move(elements_);
  }

 private:
  [[noreturn]] void fail(const std::string& message, const char* code = "E321", int line = 0,
                         int column = 0) {
    if (line == 0) line = line_, column = column_;
    throw InputError(problem_at(lines_, code, line, column, 1, message));
  }

  [[noreturn]] void cut_off() {
    std::string message = "the file ends too early";
    if (!open_.empty()) {
      const XmlElement& e = elements_[open_.back()];
      message += ": <" + std::string(e.name.substr(0, 40)) + "> of line " + std::to_string(e.line) +
                 " is not closed";
    }
    // The last line that says something.
    auto line = lines_.lines.size();
    while (line > 1 && trimmed(lines_.lines[line - 1]).empty()) --line;
    const size_t length = lines_.lines[line - 1].size();
    throw InputError(problem_at(lines_, "E322", static_cast<int>(line),
                                static_cast<int>(std::max<size_t>(1, length)), 1, message));
  }

  void advance(size_t n) {
    for (; n > 0; --n, ++at_) {
      if (text_[at_] == '\n') {
        ++line_;
        column_ = 1;
      } else {
        ++column_;
      }
    }
  }

  char peek() {
    if (at_ == text_.size()) cut_off();
    return text_[at_];
  }

  void skip_blanks() {
    while (is_blank(peek())) advance(1);
  }

  // Behind the next `end`.
  void skip_past(std::string_view end) {
    const size_t found = text_.find(end, at_);
    if (found == std::string_view::npos) cut_off();
    advance(found + end.size() - at_);
  }

  std::string_view name(const char* what) {
    const size_t begin = at_;
    while (is_name(peek())) advance(1);
    if (at_ == begin) fail(std::string(what) + " should stand here");
    return text_.substr(begin, at_ - begin);
  }

  void expect(char c) {
    if (peek() != c) fail(std::string("'") + c + "' should stand here");
    advance(1);
  }

  // At a '<'.
  void markup() {
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("<!--")) {
      advance(4);
      skip_past("-->");
    } else if (rest.starts_with("<?")) {
      skip_past("?>");
    } else if (rest.starts_with("<!")) {
      fail("document types and CDATA are not read");
    } else if (rest.starts_with("</")) {
      close();
    } else {
      open();
    }
  }

  void close() {
    const int line = line_, column = column_;
    advance(2);
    const std::string_view what = name("the name of an element");
    skip_blanks();
    expect('>');
    if (open_.empty()) fail("nothing is open that could be closed", "E321", line, column);
    const XmlElement& e = elements_[open_.back()];
    if (e.name != what)
      fail("<" + std::string(e.name.substr(0, 40)) + "> of line " + std::to_string(e.line) +
               " should be closed here",
           "E321", line, column);
    open_.pop_back();
  }

  void open() {
    XmlElement e;
    e.line = line_;
    e.column = column_;
    if (open_.empty() && !elements_.empty()) fail("a second outermost element");
    if (open_.size() == kMostLevels) fail("more than 64 levels");
    if (elements_.size() == kMostElements) fail("more than 100,000 elements");
    e.parent = open_.empty() ? -1 : static_cast<int32_t>(open_.back());
    advance(1);
    e.name = name("the name of an element");
    bool empty = false;
    for (skip_blanks(); peek() != '>'; skip_blanks()) {
      if (peek() == '/') {
        advance(1);
        empty = true;
        if (peek() != '>') fail("'>' should stand here");
        break;
      }
      e.attributes.push_back(attribute(e));
    }
    advance(1);
    if (!empty) open_.push_back(elements_.size());
    elements_.push_back(std::move(e));
  }

  XmlAttribute attribute(const XmlElement& e) {
    XmlAttribute a;
    a.line = line_;
    a.column = column_;
    a.name = name("the name of an attribute, or '>',");
    if (e.find(a.name) != nullptr)
      fail("'" + std::string(a.name.substr(0, 40)) + "' is given twice", "E321", a.line, a.column);
    if (e.attributes.size() == kMostAttributes) fail("more than 64 attributes");
    skip_blanks();
    expect('=');
    skip_blanks();
    const char quote = peek();
    if (quote != '"' && quote != '\'') fail("a value in quotes should stand here");
    advance(1);
    while (peek() != quote) {
      if (peek() == '<') fail("'<' inside a value: a quote is missing before");
      if (peek() == '&') {
        a.value += entity();
      } else {
        a.value += text_[at_];
        advance(1);
      }
    }
    advance(1);
    return a;
  }

  char entity() {
    struct Named {
      std::string_view text;
      char means;
    };
    for (const Named& n : {Named{"&amp;", '&'}, Named{"&lt;", '<'}, Named{"&gt;", '>'},
                           Named{"&quot;", '"'}, Named{"&apos;", '\''}}) {
      if (!text_.substr(at_).starts_with(n.text)) continue;
      advance(n.text.size());
      return n.means;
    }
    fail("'&' that begins none of &amp; &lt; &gt; &quot; &apos;");
  }

  std::string_view text_;
  const ImportText& lines_;
  size_t at_ = 0;
  int line_ = 1, column_ = 1;
  std::vector<XmlElement> elements_;
  std::vector<size_t> open_;
};

}  // namespace

const XmlAttribute* XmlElement::find(std::string_view attribute) const {
  for (const XmlAttribute& a : attributes)
    if (a.name == attribute) return &a;
  return nullptr;
}

std::string_view XmlElement::value_of(std::string_view attribute) const {
  const XmlAttribute* a = find(attribute);
  return a == nullptr ? std::string_view{} : a->value;
}

std::vector<XmlElement> read_xml(std::string_view text, const ImportText& lines) {
  return XmlReader(text, lines).read();
}

}  // namespace stepcast
