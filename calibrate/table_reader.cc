// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table_reader.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "calibrate/row_shape.h"
#include "sim/check.h"

namespace stepcast {
TableReader::TableReader(std::string_view text, const std::string& file,
                         const TableReadOptions& options)
    : text_(text), file_(file), options_(options), in_(text, file, "E305", "E306") {}

int64_t TableReader::whole(size_t at, std::string_view what, int64_t least) {
  return in_.whole(in_.fields[at], what, least);
}

double TableReader::positive(size_t at, std::string_view what) {
  return in_.number(in_.fields[at], what, NumberRange::positive);
}

double TableReader::from_zero(size_t at, std::string_view what) {
  return in_.number(in_.fields[at], what, NumberRange::from_zero);
}

double TableReader::time(size_t at) {
  return positive(at, "the time");
}

uint16_t TableReader::source(size_t at, const TableText& table) {
  const std::string_view field = in_.fields[at];
  if (!table.sources.empty() && table.sources[last_source_].key == field) return last_source_;
  for (size_t i = 0; i < table.sources.size(); ++i) {
    if (table.sources[i].key == field) {
      last_source_ = static_cast<uint16_t>(i);
      return last_source_;
    }
  }
  in_.problem("E306", field, "unknown source '" + std::string(field) + "'",
              "declare it above: # source: " + std::string(field) + " measured where it is from");
  return 0;
}

// Rows of a family stand together: there is room for as many as the rest of the text may hold.
template <class Row>
void TableReader::add(std::vector<Row>& rows, const Row& row) {
  if (rows.empty()) {
    const auto rest = static_cast<size_t>(text_.data() + text_.size() - in_.line.data());
    rows.reserve(1 + rest / in_.line.size());
  }
  rows.push_back(row);
}

double TableReader::spread(size_t at) {
  return count_ > at ? from_zero(at, "the spread") : 0;
}

DType TableReader::dtype(size_t at) {
  return in_.word(in_.fields[at], DType::uint8, "data type");
}

void TableReader::gemm(TableText& out) {
  GemmRow r;
  r.dtype = dtype(1);
  r.layout = in_.word(in_.fields[2], GemmLayout::nt, "layout", "tn, nn or nt");
  r.m = whole(3, "m");
  r.n = whole(4, "n");
  r.k = whole(5, "k");
  r.batch = whole(6, "batch");
  r.us = time(7);
  r.source = source(8, out);
  r.spread = spread(9);
  add(out.gemms, r);
}

void TableReader::attention(TableText& out) {
  AttentionRow r;
  r.backward = in_.fields[1] == "bwd";
  if (!r.backward && in_.fields[1] != "fwd") {
    in_.problem("E306", in_.fields[1], "unknown pass '" + std::string(in_.fields[1]) + "'",
                "fwd or bwd");
  }
  r.dtype = dtype(2);
  r.causal = in_.fields[3] == "1";
  if (!r.causal && in_.fields[3] != "0") {
    in_.problem("E306", in_.fields[3],
                "causal must be 0 or 1, not '" + std::string(in_.fields[3]) + "'");
  }
  r.heads = whole(4, "heads");
  r.kv_heads = whole(5, "kv_heads");
  r.m = whole(6, "the query length");
  r.n = whole(7, "the key length");
  r.k = whole(8, "the head dimension");
  r.batch = whole(9, "batch");
  r.us = time(10);
  r.source = source(11, out);
  r.spread = spread(12);
  add(out.attentions, r);
}

void TableReader::memory(TableText& out) {
  MemoryRow r;
  const auto kernel = named(in_.fields[1], Kernel::quantize);
  if (!kernel || *kernel == Kernel::none) {
    in_.problem("E306", in_.fields[1], "unknown kernel '" + std::string(in_.fields[1]) + "'");
  }
  r.kernel = kernel.value_or(Kernel::add);
  r.bytes = whole(2, "bytes");
  r.us = time(3);
  r.source = source(4, out);
  r.spread = spread(5);
  add(out.memories, r);
}

void TableReader::collective(TableText& out) {
  CollectiveRow r;
  const auto which = named(in_.fields[1], WorkKind::send_recv);
  if (!which || !is_communication(*which)) {
    in_.problem("E306", in_.fields[1], "'" + std::string(in_.fields[1]) + "' is not a collective");
  }
  r.kind = which.value_or(WorkKind::all_reduce);
  r.ranks = whole(2, "ranks", 2);
  r.nodes = whole(3, "nodes");
  r.ranks_per_node = whole(4, "ranks_per_node");
  r.nic_gbs = from_zero(5, "nic_gbs");
  r.bytes = whole(6, "bytes");
  r.us = time(7);
  r.source = source(8, out);
  r.spread = spread(9);
  if (r.nodes > 1 && r.nic_gbs == 0) {
    in_.problem("E305", in_.fields[5], "nic_gbs must be stated for a group of several nodes");
  }
  if (!is_group(r)) {
    in_.problem(
        "E305", in_.fields[2],
        "ranks must be nodes times ranks_per_node, not '" + std::string(in_.fields[2]) + "'");
  }
  add(out.collectives, r);
}

void TableReader::fit(TableText& out) {
  FitRow r;
  r.kind = in_.word(in_.fields[1], WorkKind::send_recv, "kind of work");
  r.dtype = dtype(2);
  r.t0_us = from_zero(3, "t0_us");
  r.tflops = from_zero(4, "tflops");
  r.gbs = from_zero(5, "gbs");
  r.source = source(6, out);
  if (count_ > 7) {
    r.rows = whole(7, "the number of rows");
    r.median_error = from_zero(8, "the median error");
    r.p90_error = from_zero(9, "the 90th percentile of the error");
  }
  if (count_ > 10) {
    r.flag = in_.word(in_.fields[10], FitFlag::scattered, "flag");
  }
  for (const FitRow& other : out.fits) {
    if (other.kind == r.kind && other.dtype == r.dtype) {
      in_.problem("E307", in_.line, "a second fit for the same works");
    }
  }
  if (r.kind != WorkKind::memory_bound && r.tflops == 0) {
    in_.problem("E305", in_.fields[4], "tflops must be positive");
  }
  out.fits.push_back(r);
}

void TableReader::copy(TableText& out) {
  CopyRow r;
  r.kind = in_.word(in_.fields[1], CopyKind::d2d, "copy", "h2d, d2h or d2d");
  r.bytes = whole(2, "bytes");
  r.us = time(3);
  r.source = source(4, out);
  r.spread = spread(5);
  add(out.copies, r);
}

void TableReader::ratio(TableText& out) {
  const double value = positive(2, "the ratio");
  const uint16_t from = source(3, out);
  const auto take = [&](std::optional<double>& place, uint16_t& place_source) {
    if (place) in_.problem("E307", in_.line, "this ratio was there before");
    place = value;
    place_source = from;
  };
  if (in_.fields[1] == "nn") {
    take(out.ratio_nn, out.ratio_nn_source);
  } else if (in_.fields[1] == "nt") {
    take(out.ratio_nt, out.ratio_nt_source);
  } else if (in_.fields[1] == "skinny") {
    take(out.ratio_skinny, out.ratio_skinny_source);
  } else {
    in_.problem("E306", in_.fields[1], "unknown ratio '" + std::string(in_.fields[1]) + "'",
                "nn, nt or skinny");
  }
}

void TableReader::launch(TableText& out) {
  if (out.launch_us) in_.problem("E307", in_.line, "a second launch row");
  out.launch_us = time(1);
  out.launch_source = source(2, out);
  out.launch_spread = spread(3);
}

void TableReader::graph_launch(TableText& out) {
  if (out.graph_launch_us) in_.problem("E307", in_.line, "a second graph_launch row");
  out.graph_launch_us = time(1);
  out.graph_launch_source = source(2, out);
  out.graph_launch_spread = spread(3);
}

void TableReader::interference(TableText& out) {
  if (out.interference) in_.problem("E307", in_.line, "a second interference row");
  const double compute = positive(1, "the ratio of compute");
  const double communication = positive(2, "the ratio of communication");
  if (compute < 1 || communication < 1)
    in_.problem("E305", compute < 1 ? in_.fields[1] : in_.fields[2],
                "nothing is faster beside something");
  out.interference = {compute, communication};
  out.interference_source = source(3, out);
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
  count_ = in_.split();
  size_t checked = 0;
  for (const Form& f : forms()) {
    ++checked;
    if (in_.fields[0] != f.family) continue;
    add_to_checksum(checked);
    const bool half = f.family == "fit" && (count_ == 8 || count_ == 9);  // of its residuals
    if (count_ >= f.least && count_ <= f.most && !half) return (this->*f.read)(out);
    return in_.problem("E304", in_.line,
                       "a row of '" + std::string(f.family) + "' has " + std::to_string(f.least) +
                           (f.most > f.least ? " to " + std::to_string(f.most) : std::string()) +
                           " fields, not " + std::to_string(count_));
  }
  in_.problem(
      "E304", in_.fields[0], "unknown kind of row '" + std::string(in_.fields[0]) + "'",
      "gemm, attention, memory, copy, collective, launch, graph_launch, interference, fit or "
      "ratio");
}

}  // namespace stepcast
