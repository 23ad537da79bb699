// SPDX-License-Identifier: Apache-2.0
#include "topology/smi_matrix.h"

#include <algorithm>
#include <array>
#include <optional>

namespace stepcast {
namespace {

constexpr size_t kMostDevices = 512;

bool digits(std::string_view s) {
  return !s.empty() && s.find_first_not_of("0123456789") == std::string_view::npos;
}

// GPU0, NIC3, or a NIC by its own name: mlx5_0, rocep145s0.
bool is_device(std::string_view word) {
  if (is_smi_gpu(word) || (word.starts_with("NIC") && digits(word.substr(3)))) return true;
  if (word.front() < 'a' || word.front() > 'z') return false;
  return std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

std::optional<SmiCell> cell_of(std::string_view word) {
  constexpr std::array<std::pair<std::string_view, Near>, 7> kWords = {{{"X", Near::self},
                                                                        {"PIX", Near::pix},
                                                                        {"PXB", Near::pxb},
                                                                        {"PHB", Near::phb},
                                                                        {"NODE", Near::node},
                                                                        {"SYS", Near::sys},
                                                                        {"SOC", Near::sys}}};
  for (const auto& [name, near] : kWords)
    if (word == name) return SmiCell{near, 0};
  constexpr size_t kLongest = 4;  // NV18
  if (word.size() > kLongest || !word.starts_with("NV") || !digits(word.substr(2))) return {};
  const int64_t links = whole_number(word.substr(2));
  if (links < 1 || links > kMostGpuLinks) return {};
  return SmiCell{Near::nvlink, static_cast<int32_t>(links)};
}

// The word with which `word` begins, if a device or a cell is followed by more: "SYS" of "SYSSYS".
// Nothing of a long word, which takes long to look through.
std::string_view glued_part(std::string_view word) {
  constexpr size_t kLongest = 64;
  if (word.size() > kLongest) return {};
  for (size_t n = word.size() - 1; n > 0; --n) {
    const std::string_view part = word.substr(0, n), rest = word.substr(n);
    const bool cells = cell_of(part) && (cell_of(rest) || !glued_part(rest).empty());
    const bool device = (is_smi_gpu(part) || part.starts_with("NIC")) && is_device(part) &&
                        !digits(rest.substr(0, 1));
    if (cells || device) return part;
  }
  return {};
}

// Escape sequences become blanks: columns stay.
std::string without_escapes(std::string_view line) {
  std::string s(line);
  for (size_t at = s.find('['); at != std::string::npos; at = s.find('[', at + 1)) {
    const size_t end = s.find_first_not_of("0123456789;", at + 1);
    if (end == std::string::npos || s[end] != 'm') continue;
    const size_t begin = at > 0 && s[at - 1] == '\x1b' ? at - 1 : at;
    std::fill(s.begin() + static_cast<long>(begin), s.begin() + static_cast<long>(end) + 1, ' ');
  }
  return s;
}

class MatrixReader {
 public:
  explicit MatrixReader(const ImportText& text) : text_(text) {}

  // Throws InputError.
  SmiMatrix read() {
    size_t line = 0;
    while (line < text_.lines.size() && !header(line)) ++line;
    if (matrix_.names.empty())
      throw InputError(problem_at(text_, "E320", 1, 1, 1, "no matrix of `nvidia-smi topo -m` here",
                                  "its first line names the devices: GPU0 GPU1 ..."));
    throw_if_any(problems_);
    for (++line; matrix_.cells.size() < matrix_.names.size(); ++line) {
      if (line < text_.lines.size() && trimmed(text_.lines[line]).empty()) continue;
      if (line == text_.lines.size() || !row(line)) cut_off(line);
    }
    throw_if_any(problems_);
    for (; line < text_.lines.size(); ++line) legend(line);
    return std::move(matrix_);
  }

 private:
  void problem(size_t line, const ImportWord& word, std::string message, std::string help = "") {
    problems_.push_back(problem_at(text_, "E321", static_cast<int>(line) + 1, word.column,
                                   word.text.size(), std::move(message), std::move(help)));
  }

  // A word that is neither a device nor a cell.
  void strange(size_t line, const ImportWord& word, const char* wanted) {
    const std::string_view part = glued_part(word.text);
    std::string shown(word.text.substr(0, 40));
    if (part.empty())
      problem(line, word, "'" + shown + "' is no " + wanted,
              "X, NV1 to NV18, PIX, PXB, PHB, NODE or SYS");
    else
      problem(line, word, "'" + shown + "' is two words that have run together",
              "a blank is missing after '" + std::string(part) + "'");
  }

  // The line that names the columns.
  bool header(size_t line) {
    const std::string plain = without_escapes(text_.lines[line]);
    const std::vector<ImportWord> words = words_of(plain);
    if (words.empty() || !words[0].text.starts_with("GPU")) return false;
    if (words.size() > 1 && cell_of(words[1].text)) return false;  // a row
    if (!is_smi_gpu(words[0].text) && glued_part(words[0].text).empty()) return false;
    for (const ImportWord& w : words) {
      if (w.text == "CPU" || w.text == "NUMA" || w.text == "GPU") break;
      if (is_device(w.text))
        matrix_.names.emplace_back(w.text);
      else
        strange(line, w, "device");
    }
    if (matrix_.names.empty()) matrix_.names.emplace_back("GPU0");  // problems_ says why
    if (matrix_.names.size() > kMostDevices)
      problem(line, words[0], "more than 512 devices in one node");
    return true;
  }

  // False if this line is no row of the matrix.
  bool row(size_t line) {
    const std::string plain = without_escapes(text_.lines[line]);
    const std::vector<ImportWord> words = words_of(plain);
    const std::string& wanted = matrix_.names[matrix_.cells.size()];
    if (words.empty()) return false;
    if (words[0].text != wanted) {
      if (!is_device(words[0].text)) return false;
      problem(line, words[0], "the row of " + wanted + " should stand here",
              "rows stand in the order of the columns");
      throw_if_any(problems_);
    }
    const size_t n = matrix_.names.size();
    std::vector<SmiCell> cells;
    for (size_t i = 1; i < words.size() && cells.size() < n; ++i) {
      const std::optional<SmiCell> cell = cell_of(words[i].text);
      if (!cell) strange(line, words[i], "cell of the matrix");
      if (!cell && glued_part(words[i].text).empty()) break;
      cells.push_back(cell.value_or(SmiCell{}));
    }
    if (cells.size() < n && problems_.empty()) {
      problem(line, words.back(),
              "the row of " + wanted + " has " + std::to_string(cells.size()) + " cells, not " +
                  std::to_string(n),
              "the line was cut off, or the header names other devices");
    }
    cells.resize(n);
    const size_t self = matrix_.cells.size();
    if (problems_.empty() && cells[self].near != Near::self)
      problem(line, words[self + 1], "the cell of " + wanted + " and itself should be X");
    for (size_t i = 0; i < n && problems_.empty(); ++i) {
      if (i != self && cells[i].near == Near::self)
        problem(line, words[i + 1], wanted + " is not " + matrix_.names[i]);
    }
    matrix_.numa.push_back(problems_.empty() && words.size() > n + 1 && is_smi_gpu(wanted)
                               ? numa_of(plain, words[n])
                               : "");
    matrix_.cells.push_back(std::move(cells));
    matrix_.lines.push_back(static_cast<int>(line) + 1);
    return true;
  }

  // The second of the columns behind the matrix, which may be empty between tabs.
  static std::string numa_of(std::string_view line, const ImportWord& last_cell) {
    std::string_view rest =
        line.substr(static_cast<size_t>(last_cell.column) - 1 + last_cell.text.size());
    std::string_view numa;
    if (rest.find('\t') != std::string_view::npos) {
      std::vector<std::string_view> fields;
      for (size_t tab = rest.find('\t'); tab != std::string_view::npos; tab = rest.find('\t')) {
        fields.push_back(trimmed(rest.substr(0, tab)));
        rest.remove_prefix(tab + 1);
      }
      fields.push_back(trimmed(rest));
      if (fields.size() > 2) numa = fields[2];  // [0] is what stands before the first tab
    } else if (const std::vector<ImportWord> words = words_of(rest); words.size() > 1) {
      numa = words[1].text;
    }
    return numa == "N/A" ? "" : std::string(numa);
  }

  void legend(size_t line) {
    const std::vector<ImportWord> words = words_of(text_.lines[line]);
    if (words.size() != 2 || !words[0].text.starts_with("NIC") || !words[0].text.ends_with(':'))
      return;
    matrix_.legend[std::string(words[0].text.substr(0, words[0].text.size() - 1))] = words[1].text;
  }

  [[noreturn]] void cut_off(size_t line) {
    throw_if_any(problems_);
    const auto at = static_cast<int>(std::min(line + 1, text_.lines.size()));
    throw InputError(problem_at(text_, "E322", at, 1, 1,
                                "the matrix has " + std::to_string(matrix_.cells.size()) +
                                    " rows for " + std::to_string(matrix_.names.size()) +
                                    " devices: the row of " + matrix_.names[matrix_.cells.size()] +
                                    " is missing"));
  }

  const ImportText& text_;
  SmiMatrix matrix_;
  std::vector<Diagnostic> problems_;
};

}  // namespace

bool is_smi_gpu(std::string_view name) {
  return name.starts_with("GPU") && digits(name.substr(3));
}

SmiMatrix read_smi_matrix(const ImportText& text) {
  return MatrixReader(text).read();
}

}  // namespace stepcast
