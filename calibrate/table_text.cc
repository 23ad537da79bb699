// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <tuple>
#include <utility>

#include "calibrate/table_reader.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

constexpr std::string_view kMagic = "# stepcast cost table";
constexpr int64_t kFormat = 1;
constexpr size_t kMostProblems = 20;

template <class Enum>
std::optional<Enum> named(std::string_view text, Enum last) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (name_of(static_cast<Enum>(i)) == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

TableReader::TableReader(std::string_view text, const std::string& file)
    : text_(text), file_(file) {}

void TableReader::problem(std::string code, std::string_view at, std::string message,
                          std::string help) {
  if (problems_.size() >= kMostProblems) return;
  Diagnostic d;
  d.code = std::move(code);
  d.message = std::move(message);
  d.file = file_;
  d.line = line_;
  d.column = at.data() == nullptr ? 1 : static_cast<int>(at.data() - row_.data()) + 1;
  d.length = std::max(1, static_cast<int>(at.size()));
  d.source_line = std::string(row_);
  d.help = std::move(help);
  problems_.push_back(std::move(d));
}

bool TableReader::next_line() {
  if (position_ >= text_.size()) return false;
  size_t end = text_.find('\n', position_);
  if (end == std::string_view::npos) end = text_.size();
  row_ = text_.substr(position_, end - position_);
  if (!row_.empty() && row_.back() == '\r') row_.remove_suffix(1);
  position_ = end + 1;
  ++line_;
  return true;
}

size_t TableReader::split() {
  size_t count = 0;
  size_t begin = 0;
  while (true) {
    const size_t end = std::min(row_.find(',', begin), row_.size());
    if (count < fields_.size()) fields_[count] = row_.substr(begin, end - begin);
    ++count;
    if (end == row_.size()) return count;
    begin = end + 1;
  }
}

int64_t TableReader::whole(std::string_view field, std::string_view what, int64_t least) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size() || value < least ||
      value > int64_t{1} << 50) {
    problem("E305", field,
            std::string(what) + " must be a whole number, not '" + std::string(field) + "'",
            "from " + std::to_string(least) + " to 2^50");
    return 1;
  }
  return value;
}

double TableReader::number(std::string_view field, std::string_view what, bool zero) {
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size() || !(value <= 1e15) ||
      !(zero ? value >= 0 : value > 1e-6)) {
    problem("E305", field,
            std::string(what) + " must be a positive number, not '" + std::string(field) + "'",
            zero ? "0 or more" : "microseconds, or the unit in the column's name");
    return 1;
  }
  return value;
}

uint16_t TableReader::source(std::string_view field, const TableText& table) {
  if (!table.sources.empty() && table.sources[last_source_].key == field) return last_source_;
  for (size_t i = 0; i < table.sources.size(); ++i) {
    if (table.sources[i].key == field) {
      last_source_ = static_cast<uint16_t>(i);
      return last_source_;
    }
  }
  problem("E306", field, "unknown source '" + std::string(field) + "'",
          "declare it above: # source: " + std::string(field) + " measured where it is from");
  return 0;
}

DType TableReader::dtype(std::string_view field) {
  const auto t = named(field, DType::uint8);
  if (!t) problem("E306", field, "unknown data type '" + std::string(field) + "'");
  return t.value_or(DType::bf16);
}

WorkKind TableReader::kind(std::string_view field) {
  const auto k = named(field, WorkKind::send_recv);
  if (!k) problem("E306", field, "unknown kind of work '" + std::string(field) + "'");
  return k.value_or(WorkKind::gemm);
}

void TableReader::gemm(TableText& out) {
  GemmRow r;
  r.dtype = dtype(fields_[1]);
  const auto layout = named(fields_[2], GemmLayout::nt);
  if (!layout) {
    problem("E306", fields_[2], "unknown layout '" + std::string(fields_[2]) + "'", "tn, nn or nt");
  }
  r.layout = layout.value_or(GemmLayout::tn);
  r.m = whole(fields_[3], "m");
  r.n = whole(fields_[4], "n");
  r.k = whole(fields_[5], "k");
  r.batch = whole(fields_[6], "batch");
  r.us = number(fields_[7], "the time");
  r.source = source(fields_[8], out);
  out.gemms.push_back(r);
}

void TableReader::attention(TableText& out) {
  AttentionRow r;
  r.backward = fields_[1] == "bwd";
  if (!r.backward && fields_[1] != "fwd") {
    problem("E306", fields_[1], "unknown pass '" + std::string(fields_[1]) + "'", "fwd or bwd");
  }
  r.dtype = dtype(fields_[2]);
  r.causal = fields_[3] == "1";
  if (!r.causal && fields_[3] != "0") {
    problem("E306", fields_[3], "causal must be 0 or 1, not '" + std::string(fields_[3]) + "'");
  }
  r.heads = whole(fields_[4], "heads");
  r.kv_heads = whole(fields_[5], "kv_heads");
  r.m = whole(fields_[6], "the query length");
  r.n = whole(fields_[7], "the key length");
  r.k = whole(fields_[8], "the head dimension");
  r.batch = whole(fields_[9], "batch");
  r.us = number(fields_[10], "the time");
  r.source = source(fields_[11], out);
  out.attentions.push_back(r);
}

void TableReader::memory(TableText& out) {
  MemoryRow r;
  const auto kernel = named(fields_[1], Kernel::adam);
  if (!kernel || *kernel == Kernel::none) {
    problem("E306", fields_[1], "unknown kernel '" + std::string(fields_[1]) + "'");
  }
  r.kernel = kernel.value_or(Kernel::add);
  r.bytes = whole(fields_[2], "bytes");
  r.us = number(fields_[3], "the time");
  r.source = source(fields_[4], out);
  out.memories.push_back(r);
}

void TableReader::collective(TableText& out) {
  CollectiveRow r;
  r.kind = kind(fields_[1]);
  if (!is_communication(r.kind) || r.kind == WorkKind::send_recv) {
    problem("E306", fields_[1], "'" + std::string(fields_[1]) + "' is not a collective");
  }
  r.ranks = whole(fields_[2], "ranks", 2);
  r.nodes = whole(fields_[3], "nodes");
  r.ranks_per_node = whole(fields_[4], "ranks_per_node");
  r.nic_gbs = number(fields_[5], "nic_gbs", true);
  r.bytes = whole(fields_[6], "bytes");
  r.us = number(fields_[7], "the time");
  r.source = source(fields_[8], out);
  if (r.nodes > 1 && r.nic_gbs == 0) {
    problem("E305", fields_[5], "nic_gbs must be stated for a group of several nodes");
  }
  out.collectives.push_back(r);
}

void TableReader::fit(TableText& out) {
  FitRow r;
  r.kind = kind(fields_[1]);
  r.dtype = dtype(fields_[2]);
  r.t0_us = number(fields_[3], "t0_us", true);
  r.tflops = number(fields_[4], "tflops", true);
  r.gbs = number(fields_[5], "gbs", true);
  r.source = source(fields_[6], out);
  for (const FitRow& other : out.fits) {
    if (other.kind == r.kind && other.dtype == r.dtype) {
      problem("E307", row_, "a second fit for the same works");
    }
  }
  if (r.kind != WorkKind::memory_bound && r.tflops == 0) {
    problem("E305", fields_[4], "tflops must be positive");
  }
  out.fits.push_back(r);
}

void TableReader::ratio(TableText& out) {
  const double value = number(fields_[2], "the ratio");
  source(fields_[3], out);
  std::optional<double>* place = fields_[1] == "nn"       ? &out.ratio_nn
                                 : fields_[1] == "nt"     ? &out.ratio_nt
                                 : fields_[1] == "skinny" ? &out.ratio_skinny
                                                          : nullptr;
  if (place == nullptr) {
    problem("E306", fields_[1], "unknown ratio '" + std::string(fields_[1]) + "'",
            "nn, nt or skinny");
  } else if (place->has_value()) {
    problem("E307", row_, "this ratio was there before");
  } else {
    *place = value;
  }
}

void TableReader::launch(TableText& out) {
  if (out.launch_us) problem("E307", row_, "a second launch row");
  out.launch_us = number(fields_[1], "the time");
  source(fields_[2], out);
}

void TableReader::row(TableText& out) {
  struct Form {
    std::string_view family;
    size_t fields;
    void (TableReader::*read)(TableText&);
  };
  static constexpr std::array<Form, 7> kForms{{{"gemm", 9, &TableReader::gemm},
                                               {"attention", 12, &TableReader::attention},
                                               {"memory", 5, &TableReader::memory},
                                               {"collective", 9, &TableReader::collective},
                                               {"fit", 7, &TableReader::fit},
                                               {"ratio", 4, &TableReader::ratio},
                                               {"launch", 3, &TableReader::launch}}};
  const size_t count = split();
  for (const Form& f : kForms) {
    if (fields_[0] != f.family) continue;
    if (count == f.fields) return (this->*f.read)(out);
    return problem("E304", row_,
                   "a row of '" + std::string(f.family) + "' has " + std::to_string(f.fields) +
                       " fields, not " + std::to_string(count));
  }
  problem("E304", fields_[0], "unknown kind of row '" + std::string(fields_[0]) + "'",
          "gemm, attention, memory, collective, launch, fit or ratio");
}

void TableReader::share(std::string_view value, TableText& out) {
  static constexpr std::array<std::string_view, kFamilies> kNames{"gemm", "attention", "memory",
                                                                  "launch", "collective"};
  bool first = true;
  while (!value.empty()) {
    const size_t end = std::min(value.find(' '), value.size());
    const std::string_view word = value.substr(0, end);
    value.remove_prefix(std::min(end + 1, value.size()));
    if (first) {
      out.share_from = std::string(word);
      first = false;
      continue;
    }
    const auto* found = std::find(kNames.begin(), kNames.end(), word);
    if (found == kNames.end()) {
      problem("E306", word, "unknown family '" + std::string(word) + "'");
    } else {
      out.shared[static_cast<size_t>(found - kNames.begin())] = true;
    }
  }
}

void TableReader::new_source(std::string_view value, TableText& out) {
  const size_t first = value.find(' ');
  const size_t second =
      first == std::string_view::npos ? first : std::min(value.find(' ', first + 1), value.size());
  const std::string_view kind =
      first == std::string_view::npos ? "" : value.substr(first + 1, second - first - 1);
  if (kind != "measured" && kind != "derived") {
    return problem("E303", value, "a source is a key, 'measured' or 'derived', and a text");
  }
  const std::string_view key = value.substr(0, first);
  for (const TableSource& s : out.sources) {
    if (s.key == key) return problem("E307", key, "source '" + s.key + "' was declared before");
  }
  std::string_view text = value.substr(second);
  if (!text.empty()) text.remove_prefix(1);
  out.sources.push_back({std::string(key), kind == "derived", std::string(text)});
}

void TableReader::header(TableText& out) {
  std::string_view rest = row_.substr(1);
  if (rest.starts_with(' ')) rest.remove_prefix(1);
  const size_t colon = rest.find(": ");
  if (colon == std::string_view::npos) return;  // a remark
  const std::string_view key = rest.substr(0, colon);
  const std::string_view value = rest.substr(colon + 2);
  if (key == "format") {
    format_ = whole(value, "the format");
  } else if (key == "gpu") {
    out.gpu = std::string(value);
  } else if (key == "about") {
    out.about = std::string(value);
  } else if (key == "nvlink_gbs") {
    out.nvlink_gbs = number(value, "nvlink_gbs");
  } else if (key == "in_network_reduction") {
    out.in_network_reduction = value == "yes";
    if (value != "yes" && value != "no") problem("E306", value, "yes or no");
  } else if (key == "source") {
    new_source(value, out);
  } else if (key == "share") {
    share(value, out);
  } else if (key == "rows") {
    announced_ = whole(value, "the number of rows", 0);
  }
}

template <class Row, class Key>
void TableReader::refuse_duplicates(const std::vector<Row>& rows, std::string_view family,
                                    Key key) {
  std::vector<decltype(key(rows[0]))> keys;
  keys.reserve(rows.size());
  for (const Row& r : rows) keys.push_back(key(r));
  std::sort(keys.begin(), keys.end());
  if (std::adjacent_find(keys.begin(), keys.end()) == keys.end()) return;
  find_duplicate(family);
}

// Names the line of the first repeated row of a family.  Only for the message, so slow is fine.
void TableReader::find_duplicate(std::string_view family) {
  TableReader again(text_, file_);
  std::vector<std::pair<std::string, int>> seen;
  while (again.next_line()) {
    const size_t count = again.split();
    if (again.fields_[0] != family || count < 3 || count > again.fields_.size()) continue;
    // All fields but time and source.
    std::string key(again.row_.substr(
        0, static_cast<size_t>(again.fields_[count - 2].data() - again.row_.data())));
    const auto before = std::find_if(seen.begin(), seen.end(),
                                     [&](const auto& other) { return other.first == key; });
    if (before != seen.end()) {
      row_ = again.row_;
      line_ = again.line_;
      problem("E307", row_,
              "the same as line " + std::to_string(before->second) + " but for time and source");
      return;
    }
    seen.emplace_back(std::move(key), again.line_);
  }
}

TableText TableReader::read() {
  TableText out;
  if (!next_line() || row_ != kMagic) {
    problem("E301", row_, "not a cost table",
            "the first line must be '" + std::string(kMagic) + "'");
    throw InputError(problems_);
  }
  int64_t rows = 0;
  while (next_line()) {
    if (row_.empty()) continue;
    if (row_.front() == '#') {
      header(out);
    } else {
      ++rows;
      row(out);
    }
    if (format_ > kFormat) {
      problem("E302", row_,
              "table format " + std::to_string(format_) + " is newer than this " +
                  "version of Stepcast reads (" + std::to_string(kFormat) + ")");
      throw InputError(problems_);
    }
  }
  finish(out, rows);
  if (!problems_.empty()) throw InputError(problems_);
  return out;
}

void TableReader::finish(const TableText& out, int64_t rows) {
  row_ = {};
  if (format_ == 0) problem("E303", {}, "the header has no '# format: 1'");
  if (out.gpu.empty()) problem("E303", {}, "the header has no '# gpu: NAME'");
  if (!announced_) {
    problem("E303", {}, "the header has no '# rows: N'");
  } else if (*announced_ != rows) {
    problem("E308", {},
            "the header announces " + std::to_string(*announced_) + " rows, there are " +
                std::to_string(rows) + ": truncated, or edited",
            "count them anew in '# rows: N'");
  }
  if (!problems_.empty()) return;
  refuse_duplicates(out.gemms, "gemm", [](const GemmRow& r) {
    return std::tuple(r.dtype, r.layout, r.m, r.n, r.k, r.batch);
  });
  refuse_duplicates(out.attentions, "attention", [](const AttentionRow& r) {
    return std::tuple(r.backward, r.dtype, r.causal, r.heads, r.kv_heads, r.m, r.n, r.k, r.batch);
  });
  refuse_duplicates(out.memories, "memory",
                    [](const MemoryRow& r) { return std::tuple(r.kernel, r.bytes); });
  refuse_duplicates(out.collectives, "collective", [](const CollectiveRow& r) {
    return std::tuple(r.kind, r.ranks, r.nodes, r.ranks_per_node, r.nic_gbs, r.bytes);
  });
}

TableText parse_table_text(std::string_view text, const std::string& file_name) {
  return TableReader(text, file_name).read();
}

}  // namespace stepcast
