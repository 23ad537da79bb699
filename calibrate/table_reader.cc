// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <utility>

#include "calibrate/row_shape.h"
#include "sim/check.h"

namespace stepcast {
namespace {

constexpr size_t kMostProblems = 20;

template <class Enum>
std::optional<Enum> named(std::string_view text, Enum last) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (name_of(static_cast<Enum>(i)) == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(CopyKind k) {
  static constexpr std::array<std::string_view, 3> kNames{"h2d", "d2h", "d2d"};
  return kNames[static_cast<size_t>(k)];
}

std::string_view name_of(FitFlag f) {
  static constexpr std::array<std::string_view, 3> kNames{"none", "partial", "scattered"};
  return kNames[static_cast<size_t>(f)];
}

std::string_view name_of(Family f) {
  static constexpr std::array<std::string_view, kFamilies> kNames{"gemm", "attention", "memory",
                                                                  "launch", "collective"};
  return kNames[static_cast<size_t>(f)];
}

bool is_source_key(std::string_view key) {
  const auto fits = [](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != ',' && c != '\x7f';
  };
  return !key.empty() && std::ranges::all_of(key, fits);
}

TableReader::TableReader(std::string_view text, const std::string& file,
                         const TableReadOptions& options)
    : text_(text), file_(file), options_(options) {}

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

// Rows of a family stand together: there is room for as many as the rest of the text may hold.
template <class Row>
void TableReader::add(std::vector<Row>& rows, const Row& row) {
  if (rows.empty())
    rows.reserve(1 + (text_.size() - std::min(position_, text_.size())) / row_.size());
  rows.push_back(row);
}

double TableReader::spread(size_t at) {
  return count_ > at ? number(fields_[at], "the spread", true) : 0;
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
  r.spread = spread(9);
  add(out.gemms, r);
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
  r.spread = spread(12);
  add(out.attentions, r);
}

void TableReader::memory(TableText& out) {
  MemoryRow r;
  const auto kernel = named(fields_[1], Kernel::quantize);
  if (!kernel || *kernel == Kernel::none) {
    problem("E306", fields_[1], "unknown kernel '" + std::string(fields_[1]) + "'");
  }
  r.kernel = kernel.value_or(Kernel::add);
  r.bytes = whole(fields_[2], "bytes");
  r.us = number(fields_[3], "the time");
  r.source = source(fields_[4], out);
  r.spread = spread(5);
  add(out.memories, r);
}

void TableReader::collective(TableText& out) {
  CollectiveRow r;
  const auto which = named(fields_[1], WorkKind::send_recv);
  if (!which || !is_communication(*which)) {
    problem("E306", fields_[1], "'" + std::string(fields_[1]) + "' is not a collective");
  }
  r.kind = which.value_or(WorkKind::all_reduce);
  r.ranks = whole(fields_[2], "ranks", 2);
  r.nodes = whole(fields_[3], "nodes");
  r.ranks_per_node = whole(fields_[4], "ranks_per_node");
  r.nic_gbs = number(fields_[5], "nic_gbs", true);
  r.bytes = whole(fields_[6], "bytes");
  r.us = number(fields_[7], "the time");
  r.source = source(fields_[8], out);
  r.spread = spread(9);
  if (r.nodes > 1 && r.nic_gbs == 0) {
    problem("E305", fields_[5], "nic_gbs must be stated for a group of several nodes");
  }
  if (!is_group(r)) {
    problem("E305", fields_[2],
            "ranks must be nodes times ranks_per_node, not '" + std::string(fields_[2]) + "'");
  }
  add(out.collectives, r);
}

void TableReader::fit(TableText& out) {
  FitRow r;
  r.kind = kind(fields_[1]);
  r.dtype = dtype(fields_[2]);
  r.t0_us = number(fields_[3], "t0_us", true);
  r.tflops = number(fields_[4], "tflops", true);
  r.gbs = number(fields_[5], "gbs", true);
  r.source = source(fields_[6], out);
  if (count_ > 7) {
    r.rows = whole(fields_[7], "the number of rows");
    r.median_error = number(fields_[8], "the median error", true);
    r.p90_error = number(fields_[9], "the 90th percentile of the error", true);
  }
  if (count_ > 10) {
    const auto flag = named(fields_[10], FitFlag::scattered);
    if (!flag) problem("E306", fields_[10], "unknown flag '" + std::string(fields_[10]) + "'");
    r.flag = flag.value_or(FitFlag::none);
  }
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

void TableReader::copy(TableText& out) {
  CopyRow r;
  const auto which = named(fields_[1], CopyKind::d2d);
  if (!which) {
    problem("E306", fields_[1], "unknown copy '" + std::string(fields_[1]) + "'",
            "h2d, d2h or d2d");
  }
  r.kind = which.value_or(CopyKind::h2d);
  r.bytes = whole(fields_[2], "bytes");
  r.us = number(fields_[3], "the time");
  r.source = source(fields_[4], out);
  r.spread = spread(5);
  add(out.copies, r);
}

void TableReader::ratio(TableText& out) {
  const double value = number(fields_[2], "the ratio");
  const uint16_t from = source(fields_[3], out);
  const auto take = [&](std::optional<double>& place, uint16_t& place_source) {
    if (place) problem("E307", row_, "this ratio was there before");
    place = value;
    place_source = from;
  };
  if (fields_[1] == "nn") {
    take(out.ratio_nn, out.ratio_nn_source);
  } else if (fields_[1] == "nt") {
    take(out.ratio_nt, out.ratio_nt_source);
  } else if (fields_[1] == "skinny") {
    take(out.ratio_skinny, out.ratio_skinny_source);
  } else {
    problem("E306", fields_[1], "unknown ratio '" + std::string(fields_[1]) + "'",
            "nn, nt or skinny");
  }
}

void TableReader::launch(TableText& out) {
  if (out.launch_us) problem("E307", row_, "a second launch row");
  out.launch_us = number(fields_[1], "the time");
  out.launch_source = source(fields_[2], out);
  out.launch_spread = spread(3);
}

void TableReader::graph_launch(TableText& out) {
  if (out.graph_launch_us) problem("E307", row_, "a second graph_launch row");
  out.graph_launch_us = number(fields_[1], "the time");
  out.graph_launch_source = source(fields_[2], out);
  out.graph_launch_spread = spread(3);
}

void TableReader::interference(TableText& out) {
  if (out.interference) problem("E307", row_, "a second interference row");
  const double compute = number(fields_[1], "the ratio of compute");
  const double communication = number(fields_[2], "the ratio of communication");
  if (compute < 1 || communication < 1)
    problem("E305", compute < 1 ? fields_[1] : fields_[2], "nothing is faster beside something");
  out.interference = {compute, communication};
  out.interference_source = source(fields_[3], out);
}

struct TableReader::Form {
  std::string_view family;
  size_t least, most;  // fields
  void (TableReader::*read)(TableText&);
};

std::span<const TableReader::Form> TableReader::forms() {
  // In the order of kChecked, which begins with the header.
  static constexpr std::array<Form, kChecked.size() - 1> kForms{
      {{"gemm", 9, 10, &TableReader::gemm},
       {"attention", 12, 13, &TableReader::attention},
       {"memory", 5, 6, &TableReader::memory},
       {"copy", 5, 6, &TableReader::copy},
       {"collective", 9, 10, &TableReader::collective},
       {"launch", 3, 4, &TableReader::launch},
       {"graph_launch", 3, 4, &TableReader::graph_launch},
       {"interference", 4, 4, &TableReader::interference},
       {"fit", 7, 11, &TableReader::fit},
       {"ratio", 4, 4, &TableReader::ratio}}};
  return kForms;
}

size_t TableReader::least_fields(std::string_view family) {
  const auto found = std::ranges::find(forms(), family, &Form::family);
  STEPCAST_CHECK(found != forms().end(), std::string(family));
  return found->least;
}

void TableReader::row(TableText& out) {
  count_ = split();
  size_t checked = 0;
  for (const Form& f : forms()) {
    ++checked;
    if (fields_[0] != f.family) continue;
    add_to_checksum(checked);
    const bool half = f.family == "fit" && (count_ == 8 || count_ == 9);  // of its residuals
    if (count_ >= f.least && count_ <= f.most && !half) return (this->*f.read)(out);
    return problem("E304", row_,
                   "a row of '" + std::string(f.family) + "' has " + std::to_string(f.least) +
                       (f.most > f.least ? " to " + std::to_string(f.most) : std::string()) +
                       " fields, not " + std::to_string(count_));
  }
  problem("E304", fields_[0], "unknown kind of row '" + std::string(fields_[0]) + "'",
          "gemm, attention, memory, copy, collective, launch, graph_launch, interference, fit or "
          "ratio");
}

}  // namespace stepcast
