// SPDX-License-Identifier: Apache-2.0
// Reads the text of a cost table (parse_table_text).
//
// A file is read line by line, once.  This one has a header of six keys and a remark, and two
// rows:
//
//     # stepcast cost table
//     # format: 2
//     # gpu: h100-sxm
//     # source: bench measured cuBLAS 12.4, 20 samples
//     # rows: 2
//     # checksum: header 41d0e6b85c27fa93
//     # checksum: gemm 9f0c2a6d1e7b3358
//     # measured on a quiet night
//     gemm,bf16,tn,4096,4096,4096,1,205.3,bench,0.012
//     gemm,bf16,tn,8192,4096,4096,1,398.1,bench
//
// A line that begins with '#' is a key with a value or, where the key is none that is known, a
// remark. Any other line is a row; its first field names its form, which says how many fields it
// has (the last one, the spread of the samples, may be absent) and which function reads them.  Each
// line also goes into the hash of its family.  At the end the number of rows, the hashes and the
// shapes (no shape twice) are compared with what the header says.  Mistakes are collected all along
// by the RowReader and thrown together.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/table/row_reader.h"
#include "calibrate/table/table_text.h"
#include "sim/check.h"
#include "sim/text.h"

namespace stepcast {
namespace {

// Reads one text.
class TableReader {
 public:
  TableReader(std::string_view text, const std::string& file, TableFile state);

  // Throws InputError.
  TableText read();

 private:
  // What rows and checksum lines say of one of kChecked.
  struct Checked {
    uint64_t hash = kHashStart;  // of its lines, each with a line feed
    int first_line = 0;          // 0: none
    std::string_view first_row;
    std::optional<std::string_view> stated;  // by the header
  };

  // Of the fields of a row.
  int64_t whole(size_t at, std::string_view what, int64_t least = 1);
  double positive(size_t at, std::string_view what);
  double from_zero(size_t at, std::string_view what);
  double time(size_t at);
  DType dtype(size_t at);
  uint16_t source(size_t at, const TableText& table);
  double spread(size_t at);  // of the optional field there

  void header(TableText& out);
  void share(std::string_view value, TableText& out);
  void new_source(std::string_view value, TableText& out);
  void method(std::string_view value, TableText& out);
  void checksum(std::string_view value);
  void add_to_checksum(size_t checked);

  void row(TableText& out);
  template <class Row>
  void add(std::vector<Row>& rows, const Row& row);
  void gemm(TableText& out);
  void attention(TableText& out);
  void memory(TableText& out);
  void collective(TableText& out);
  void fit(TableText& out);
  void ratio(TableText& out);
  void copy(TableText& out);
  void launch(TableText& out);
  void graph_launch(TableText& out);
  void interference(TableText& out);

  void finish(const TableText& out, int64_t rows);
  void compare_checksums();
  template <class Row>
  void refuse_duplicates(const std::vector<Row>& rows, std::string_view family);
  void find_duplicate(std::string_view family);
  struct Form;
  static std::span<const Form> forms();
  static size_t least_fields(std::string_view family);

  std::string_view text_;
  std::string file_;
  TableFile state_;
  RowReader in_;
  size_t count_ = 0;  // of fields in the row
  std::array<Checked, kChecked.size()> checked_;
  uint16_t last_source_ = 0;
  int64_t format_ = 0;
  std::optional<int64_t> announced_;
};

void TableReader::share(std::string_view value, TableText& out) {
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
    bool known = false;
    for (size_t i = 0; i < out.shared.size(); ++i) {
      if (name_of(static_cast<Family>(i)) == word) known = out.shared[i] = true;
    }
    if (!known) in_.problem("E306", word, fmt::format("unknown family '{}'", word));
  }
}

void TableReader::new_source(std::string_view value, TableText& out) {
  const size_t first = value.find(' ');
  const size_t second =
      first == std::string_view::npos ? first : std::min(value.find(' ', first + 1), value.size());
  const std::string_view kind =
      first == std::string_view::npos ? "" : value.substr(first + 1, second - first - 1);
  if (kind != "measured" && kind != "derived") {
    return in_.problem("E303", value, "a source is a key, 'measured' or 'derived', and a text");
  }
  const std::string_view key = value.substr(0, first);
  if (!is_source_key(key)) {
    return in_.problem("E303", key, "the key of a source has no commas and no control characters");
  }
  for (const TableSource& s : out.sources) {
    if (s.key == key)
      return in_.problem("E307", key, fmt::format("source '{}' was declared before", s.key));
  }
  std::string_view text = value.substr(second);
  if (!text.empty()) text.remove_prefix(1);
  if (out.sources.size() > UINT16_MAX) return in_.problem("E303", key, "too many sources");
  out.sources.push_back({std::string(key), kind == "derived", std::string(text)});
}

// "KEY KIND DATA", behind the source's own line.
void TableReader::method(std::string_view value, TableText& out) {
  const size_t first = std::min(value.find(' '), value.size());
  const size_t second = std::min(value.find(' ', first + 1), value.size());
  const std::string_view key = value.substr(0, first);
  const auto source = std::ranges::find(out.sources, key, &TableSource::key);
  if (source == out.sources.end() || second == value.size())
    return in_.problem("E303", value, "a method is a source's key, how it ran, and on what data");
  const std::string_view kind = value.substr(first + 1, second - first - 1);
  const std::string_view data = value.substr(second + 1);
  for (size_t i = 0; i < kTimingKinds; ++i)
    if (name_of(static_cast<TimingKind>(i)) == kind) source->kind = static_cast<TimingKind>(i);
  for (size_t i = 0; i < kTimingData; ++i)
    if (name_of(static_cast<TimingData>(i)) == data) source->data = static_cast<TimingData>(i);
  if (name_of(source->kind) != kind)
    in_.problem("E306", kind, "unstated, single, loop, layer, best or training");
  if (name_of(source->data) != data)
    in_.problem("E306", data, "unstated, random, low-entropy or constant");
}

// "FAMILY HEX"
void TableReader::checksum(std::string_view value) {
  const size_t blank = std::min(value.find(' '), value.size());
  const std::string_view family = value.substr(0, blank);
  const auto* found = std::find(kChecked.begin(), kChecked.end(), family);
  if (found == kChecked.end() || blank + 1 >= value.size()) {
    return in_.problem("E303", value, "a checksum is a family of rows and 16 hexadecimal digits");
  }
  Checked& c = checked_[static_cast<size_t>(found - kChecked.begin())];
  if (c.stated) return in_.problem("E307", family, "a second checksum of the same rows");
  c.stated = value.substr(blank + 1);
}

void TableReader::add_to_checksum(size_t checked) {
  Checked& c = checked_[checked];
  c.hash = hash_text("\n", hash_text(in_.line, c.hash));
  if (c.first_line > 0) return;
  c.first_line = in_.line_number;
  c.first_row = in_.line;
}

void TableReader::header(TableText& out) {
  const auto said = in_.key_and_value();
  if (!said) return;  // a remark
  const auto [key, value] = *said;
  if (key == "format") {
    format_ = in_.whole(value, "the format");
    return;
  }
  if (key == "rows") {
    announced_ = in_.whole(value, "the number of rows", 0);
    return;
  }
  if (key == "checksum") return checksum(value);
  if (key == "gpu") {
    out.gpu = std::string(value);
  } else if (key == "about") {
    out.about = std::string(value);
  } else if (key == "software") {
    out.software = std::string(value);
  } else if (key == "conditions") {
    out.conditions.emplace_back(value);
  } else if (key == "power") {
    std::string_view watts = value;
    if (watts.ends_with('W')) watts.remove_suffix(1);
    out.power_watts = in_.number(watts, "power", NumberRange::positive);
  } else if (key == "nvlink_gbs") {
    out.nvlink_gbs = in_.number(value, "nvlink_gbs", NumberRange::positive);
  } else if (key == "in_network_reduction") {
    out.in_network_reduction = value == "yes";
    if (value != "yes" && value != "no") in_.problem("E306", value, "yes or no");
  } else if (key == "source") {
    new_source(value, out);
  } else if (key == "method") {
    method(value, out);
  } else if (key == "share") {
    share(value, out);
  } else {
    return;  // a remark with a colon
  }
  add_to_checksum(0);
}

template <class Row>
void TableReader::refuse_duplicates(const std::vector<Row>& rows, std::string_view family) {
  // Written tables are sorted: seen at a glance.
  const auto not_ascending = [](const Row& a, const Row& b) { return shape(a) >= shape(b); };
  if (std::ranges::adjacent_find(rows, not_ascending) == rows.end()) return;
  std::vector<decltype(shape(rows[0]))> shapes;
  shapes.reserve(rows.size());
  for (const Row& r : rows) shapes.push_back(shape(r));
  std::ranges::sort(shapes);
  if (std::ranges::adjacent_find(shapes) != shapes.end()) find_duplicate(family);
}

// Names the line of the first repeated row of a family.  Only for the message.
void TableReader::find_duplicate(std::string_view family) {
  RowReader again(text_, file_, {}, {});
  const size_t least = least_fields(family);
  std::map<std::string_view, int> seen;
  while (again.next()) {
    const size_t count = again.split();
    if (again.fields[0] != family || count < least) continue;
    // All fields but time, source and spread.
    const std::string_view key = again.line.substr(
        0, static_cast<size_t>(again.fields[least - 2].data() - again.line.data()));
    const auto [before, is_new] = seen.try_emplace(key, again.line_number);
    if (is_new) continue;
    in_.line = again.line;
    in_.line_number = again.line_number;
    in_.problem("E307", in_.line,
                fmt::format("the same as line {} but for time and source", before->second));
    in_.line = {};
    return;
  }
  in_.problem("E307", {}, fmt::format("two rows of '{}' for the same shape", family));
}

TableText TableReader::read() {
  TableText out;
  if (!in_.next() || in_.line != kTableMagic) {
    in_.problem("E301", in_.line, "not a cost table",
                fmt::format("the first line must be '{}'", kTableMagic));
    in_.throw_if_any();
  }
  int64_t rows = 0;
  while (in_.next()) {
    if (in_.line.empty()) continue;
    if (in_.line.front() == '#') {
      header(out);
    } else {
      ++rows;
      row(out);
    }
    if (format_ > kNewestTableFormat) {
      in_.problem("E302", in_.line,
                  fmt::format("table format {} is newer than this version of Stepcast reads ({})",
                              format_, kNewestTableFormat));
      in_.throw_if_any();
    }
  }
  finish(out, rows);
  in_.throw_if_any();
  return out;
}

void TableReader::finish(const TableText& out, int64_t rows) {
  in_.line = {};
  if (format_ == 0) in_.problem("E303", {}, "the header has no '# format: 2'");
  if (out.gpu.empty()) in_.problem("E303", {}, "the header has no '# gpu: NAME'");
  if (!announced_ && state_ == TableFile::as_written) {
    in_.problem("E303", {}, "the header has no '# rows: N'",
                "'stepcast calibrate fit FILE --accept-edits' takes it as it is and counts");
  } else if (state_ == TableFile::as_written && *announced_ != rows) {
    in_.problem("E308", {},
                fmt::format("the header announces {} rows, there are {}: truncated, or edited",
                            *announced_, rows),
                "'stepcast calibrate fit FILE --accept-edits' takes it as it is and counts anew");
  }
  if (in_.has_problems()) return;
  if (state_ == TableFile::as_written) compare_checksums();
  refuse_duplicates(out.gemms, "gemm");
  refuse_duplicates(out.attentions, "attention");
  refuse_duplicates(out.memories, "memory");
  refuse_duplicates(out.copies, "copy");
  refuse_duplicates(out.collectives, "collective");
}

void TableReader::compare_checksums() {
  for (size_t i = 0; i < kChecked.size(); ++i) {
    const Checked& c = checked_[i];
    const bool any = c.first_line > 0;
    if (!c.stated && (!any || format_ < 2)) continue;
    if (any && c.stated == hex_of(c.hash)) continue;
    in_.line_number = c.first_line;
    in_.line = c.first_row;
    const std::string what =
        i == 0 ? "the header was" : fmt::format("rows of '{}' were", kChecked[i]);
    in_.problem("E309", any ? in_.line : std::string_view{},
                what + (!c.stated ? " written without a checksum"
                        : any     ? " edited"
                                  : " removed"),
                "'stepcast calibrate fit FILE --accept-edits' takes it as it is and signs anew");
    in_.line = {};
  }
}

TableReader::TableReader(std::string_view text, const std::string& file, TableFile state)
    : text_(text), file_(file), state_(state), in_(text, file, "E305", "E306") {}

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
  in_.problem("E306", field, fmt::format("unknown source '{}'", field),
              fmt::format("declare it above: # source: {} measured where it is from", field));
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
    in_.problem("E306", in_.fields[1], fmt::format("unknown pass '{}'", in_.fields[1]),
                "fwd or bwd");
  }
  r.dtype = dtype(2);
  r.causal = in_.fields[3] == "1";
  if (!r.causal && in_.fields[3] != "0") {
    in_.problem("E306", in_.fields[3],
                fmt::format("causal must be 0 or 1, not '{}'", in_.fields[3]));
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
    in_.problem("E306", in_.fields[1], fmt::format("unknown kernel '{}'", in_.fields[1]));
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
    in_.problem("E306", in_.fields[1], fmt::format("'{}' is not a collective", in_.fields[1]));
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
    in_.problem("E305", in_.fields[2],
                fmt::format("ranks must be nodes times ranks_per_node, not '{}'", in_.fields[2]));
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
    in_.problem("E306", in_.fields[1], fmt::format("unknown ratio '{}'", in_.fields[1]),
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
                       fmt::format("a row of '{}' has {}{} fields, not {}", f.family, f.least,
                                   f.most > f.least ? fmt::format(" to {}", f.most) : "", count_));
  }
  in_.problem(
      "E304", in_.fields[0], fmt::format("unknown kind of row '{}'", in_.fields[0]),
      "gemm, attention, memory, copy, collective, launch, graph_launch, interference, fit or "
      "ratio");
}

}  // namespace

TableText parse_table_text(std::string_view text, const std::string& file_name, TableFile state) {
  return TableReader(text, file_name, state).read();
}

}  // namespace stepcast
