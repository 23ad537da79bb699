// SPDX-License-Identifier: Apache-2.0
#include "report/diagnostics.h"

#include <algorithm>

#include "sim/text.h"

namespace stepcast {
namespace {

constexpr int kRemarkWidth = 100;  // help and notes are broken there
constexpr int kLongestLine = 160;  // columns of a source line that are shown

// A source line as it is shown, and where the underline goes.
struct Excerpt {
  std::string line;
  int column = 0;  // columns before the underline
  int length = 1;
};

// Tabs become one blank, deceptive characters their escapes; the underline moves along.  Columns of
// a Diagnostic count bytes or code points alike for the ASCII that scenarios are made of; anything
// else only shifts the caret, never the text.
Excerpt make_excerpt(const Diagnostic& d) {
  Excerpt e;
  const size_t start = static_cast<size_t>(std::max(d.column - 1, 0));
  const size_t stop = start + static_cast<size_t>(std::max(d.length, 1));
  int end_column = -1;
  e.column = -1;
  int width = 0;
  for (size_t at = 0, index = 0; at < d.source_line.size(); ++index) {
    const CodePoint c = decode_utf8(d.source_line, at);
    if (index == start) e.column = width;
    if (index == stop) end_column = width;
    const std::string_view piece = std::string_view(d.source_line).substr(at, c.length);
    const std::string shown = c.value == '\t' ? " " : escape_text(piece);
    e.line += shown;
    width += display_width(shown);
    at += c.length;
  }
  if (e.column < 0) e.column = width;
  if (end_column < 0) end_column = std::max(width, e.column + 1);
  e.length = std::max(1, end_column - e.column);
  return e;
}

// Keeps the underlined part of a very long line in sight.
void clip(Excerpt& e) {
  if (display_width(e.line) <= kLongestLine) return;
  const int from = std::max(0, e.column - kLongestLine / 2);
  std::string kept;
  int column = -1;
  for (const char c : e.line) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) ++column;
    if (column >= from && column < from + kLongestLine) kept += c;
  }
  e.line = (from > 0 ? "..." : "") + kept + (column >= from + kLongestLine ? "..." : "");
  e.column += (from > 0 ? 3 : 0) - from;
  e.length = std::min(e.length, display_width(e.line) - e.column);
}

std::string excerpt_lines(const Diagnostic& d, const std::string& margin, const TextStyle& style) {
  Excerpt e = make_excerpt(d);
  clip(e);
  const std::string bar = paint("|", Tone::dim, style);
  std::string s = margin + bar + '\n';
  s += paint(pad_left(std::to_string(d.line), static_cast<int>(margin.size()) - 1), Tone::dim,
             style);
  s += ' ' + bar + ' ' + e.line + '\n';
  std::string marks(static_cast<size_t>(e.length), '^');
  if (!d.label.empty()) marks += ' ' + escape_text(d.label);
  s += margin + bar + ' ' + std::string(static_cast<size_t>(e.column), ' ') +
       paint(marks, Tone::bad, style) + '\n';
  return s;
}

}  // namespace

std::string render_diagnostic(const Diagnostic& d, const TextStyle& style) {
  std::string s = paint("error[" + d.code + "]", Tone::bad, style) + ": " +
                  paint(escape_text(d.message), Tone::strong, style) + '\n';
  const size_t digits = std::to_string(std::max(d.line, 1)).size();
  const std::string margin(digits + 2, ' ');
  if (!d.file.empty()) {
    s += std::string(digits + 1, ' ') + paint("-->", Tone::dim, style) + ' ' + escape_text(d.file);
    if (d.line > 0) s += ':' + std::to_string(d.line);
    if (d.line > 0 && d.column > 0) s += ':' + std::to_string(d.column);
    s += '\n';
  }
  const bool has_excerpt = d.line > 0 && d.column > 0 && !d.source_line.empty();
  if (has_excerpt) s += excerpt_lines(d, margin, style);
  if (!has_excerpt && !d.label.empty()) s += margin + "= " + escape_text(d.label) + '\n';
  if (!d.help.empty()) s += wrap(escape_text(d.help), margin + "= help: ", kRemarkWidth);
  if (!d.note.empty()) s += wrap(escape_text(d.note), margin + "= note: ", kRemarkWidth);
  return s;
}

std::string render_diagnostics(std::span<const Diagnostic> all, const TextStyle& style,
                               std::string_view outcome) {
  std::string s;
  for (const Diagnostic& d : all) s += render_diagnostic(d, style);
  if (all.empty()) return s;
  s += all.size() == 1 ? "1 error. " : std::to_string(all.size()) + " errors. ";
  s += "`stepcast help " + all.front().code + "` explains ";
  s += all.size() == 1 ? "it." : "a code.";
  if (!outcome.empty()) s += ' ' + std::string(outcome);
  return s + '\n';
}

void write_diagnostic(JsonWriter& json, const Diagnostic& d) {
  json.member("code", d.code);
  json.member("message", d.message);
  if (!d.file.empty()) json.member("file", d.file);
  if (d.line > 0) json.member("line", d.line);
  if (d.line > 0 && d.column > 0) json.member("col", d.column);
  if (!d.label.empty()) json.member("label", d.label);
  if (!d.help.empty()) json.member("help", d.help);
  if (!d.note.empty()) json.member("note", d.note);
}

std::string diagnostics_json(std::span<const Diagnostic> all) {
  return json_document([&](JsonWriter& json) {
    json.object("error", [&] { write_diagnostic(json, all.front()); });
    json.objects("errors", all, [&](const Diagnostic& d) { write_diagnostic(json, d); });
  });
}

}  // namespace stepcast
