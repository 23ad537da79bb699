// SPDX-License-Identifier: Apache-2.0
#include "calibrate/plan_text.h"

#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <utility>

#include "calibrate/attention_prices.h"
#include "calibrate/row_shape.h"
#include "sim/check.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

constexpr std::string_view kMagic = "# stepcast calibration plan";
constexpr int64_t kFormat = 1;
constexpr size_t kMostProblems = 20;
constexpr size_t kMostFields = 12;

std::string weight_text(double value) {
  std::array<char, 32> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 5)
          .ptr;
  return {text.data(), end};
}

// Keys of w.k, values of w.value_dim elements.
void set_attention_flops(Work& w) {
  w.flops = attention_flops(attention_row(w));
  if (w.value_dim == 0) return;
  w.flops.value *= static_cast<double>(w.k + w.value_dim) / static_cast<double>(2 * w.k);
}

class PlanReader {
 public:
  PlanReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  PlanText read();

 private:
  bool next_line();
  void problem(std::string code, std::string message, std::string help = {});
  void mistake(std::string message, std::string help = {}) {
    problem("E341", std::move(message), std::move(help));
  }
  void header(PlanText& out);
  void row(PlanText& out);

  void read_product(Work& w, bool grouped);
  void read_attention(Work& w);
  void read_memory(Work& w);
  void read_copy(Work& w);
  void read_collective(PlanRow& r);

  int64_t whole(std::string_view field, std::string_view what, int64_t least = 1);
  double number(std::string_view field, std::string_view what);
  template <class Enum>
  Enum word(std::string_view field, Enum last, std::string_view what);

  std::string_view text_;
  const std::string& file_;
  size_t position_ = 0;
  int line_ = 0;
  std::string_view row_;
  std::array<std::string_view, kMostFields> fields_;
  int64_t format_ = 0;
  std::optional<int64_t> shapes_;  // as the header counts them
  std::vector<Diagnostic> problems_;
};

bool PlanReader::next_line() {
  if (position_ >= text_.size()) return false;
  const size_t end = std::min(text_.find('\n', position_), text_.size());
  row_ = text_.substr(position_, end - position_);
  if (row_.ends_with('\r')) row_.remove_suffix(1);
  position_ = end + 1;
  ++line_;
  return true;
}

void PlanReader::problem(std::string code, std::string message, std::string help) {
  if (problems_.size() >= kMostProblems) return;
  Diagnostic d;
  d.code = std::move(code);
  d.message = std::move(message);
  d.file = file_;
  d.line = line_;
  d.column = 1;
  d.length = std::max(1, static_cast<int>(row_.size()));
  d.source_line = std::string(row_);
  d.help = std::move(help);
  problems_.push_back(std::move(d));
}

int64_t PlanReader::whole(std::string_view field, std::string_view what, int64_t least) {
  int64_t value = 0;
  const char* const last = field.data() + field.size();
  const auto [end, error] = std::from_chars(field.data(), last, value);
  if (error == std::errc() && end == last && value >= least && value <= int64_t{1} << 50)
    return value;
  mistake(std::string(what) + " must be a whole number, not '" + std::string(field) + "'",
          "from " + std::to_string(least) + " to 2^50");
  return 1;
}

double PlanReader::number(std::string_view field, std::string_view what) {
  double value = 0;
  const char* const last = field.data() + field.size();
  const auto [end, error] = std::from_chars(field.data(), last, value);
  if (error == std::errc() && end == last && value >= 0 && value <= 1e15) return value;
  mistake(std::string(what) + " must be a number of 0 or more, not '" + std::string(field) + "'");
  return 0;
}

template <class Enum>
Enum PlanReader::word(std::string_view field, Enum last, std::string_view what) {
  for (int i = 0; i <= static_cast<int>(last); ++i)
    if (name_of(static_cast<Enum>(i)) == field) return static_cast<Enum>(i);
  mistake("unknown " + std::string(what) + " '" + std::string(field) + "'");
  return last;
}

void PlanReader::read_product(Work& w, bool grouped) {
  GemmRow r;
  r.dtype = word(fields_[1], DType::uint8, "data type");
  r.layout = word(fields_[2], GemmLayout::nt, "layout");
  r.m = whole(fields_[3], "m");
  r.n = whole(fields_[4], "n");
  r.k = whole(fields_[5], "k");
  r.batch = whole(fields_[6], "batch");
  w = work_of(r);
  if (grouped) w.kind = WorkKind::grouped_gemm;
}

void PlanReader::read_attention(Work& w) {
  w.kind = fields_[1] == "bwd" ? WorkKind::attention_backward : WorkKind::attention_forward;
  if (fields_[1] != "fwd" && fields_[1] != "bwd")
    mistake("unknown pass '" + std::string(fields_[1]) + "'", "fwd or bwd");
  w.dtype = word(fields_[2], DType::uint8, "data type");
  w.causal = whole(fields_[3], "causal", 0) != 0;
  w.heads = whole(fields_[4], "heads");
  w.kv_heads = whole(fields_[5], "kv_heads");
  w.m = whole(fields_[6], "the query length");
  w.n = whole(fields_[7], "the key length");
  const size_t slash = std::min(fields_[8].find('/'), fields_[8].size());
  w.k = whole(fields_[8].substr(0, slash), "the head dimension");
  if (slash < fields_[8].size())
    w.value_dim = whole(fields_[8].substr(slash + 1), "the head dimension of values");
  w.batch = whole(fields_[9], "batch");
  set_attention_flops(w);
}

void PlanReader::read_memory(Work& w) {
  w.kind = WorkKind::memory_bound;
  w.kernel = word(fields_[1], Kernel::quantize, "kernel");
  if (w.kernel == Kernel::none) mistake("unknown kernel 'none'");
  w.bytes = {whole(fields_[2], "bytes")};
}

void PlanReader::read_copy(Work& w) {
  w.kind = WorkKind::host_copy;
  if (fields_[1] != "h2d")
    mistake("unknown copy '" + std::string(fields_[1]) + "'", "h2d, which stands for both ways");
  w.bytes = {whole(fields_[2], "bytes")};
}

void PlanReader::read_collective(PlanRow& r) {
  r.work.kind = word(fields_[1], WorkKind::send_recv, "collective");
  if (!is_communication(r.work.kind))
    mistake("'" + std::string(fields_[1]) + "' is not a collective");
  r.ranks = whole(fields_[2], "ranks", 2);
  r.nodes = whole(fields_[3], "nodes");
  r.ranks_per_node = whole(fields_[4], "ranks_per_node");
  r.nic_gbs = number(fields_[5], "nic_gbs");
  r.work.bytes = {whole(fields_[6], "bytes")};
}

void PlanReader::row(PlanText& out) {
  enum class Family : uint8_t { gemm, grouped_gemm, attention, memory, copy, collective };
  struct Form {
    std::string_view word;
    size_t fields;
    Family family;
  };
  static constexpr std::array<Form, 6> kForms{{{"gemm", 9, Family::gemm},
                                               {"grouped_gemm", 9, Family::grouped_gemm},
                                               {"attention", 12, Family::attention},
                                               {"memory", 5, Family::memory},
                                               {"copy", 5, Family::copy},
                                               {"collective", 9, Family::collective}}};
  size_t count = 0;
  for (std::string_view rest = row_;; ++count) {
    const size_t end = std::min(rest.find(','), rest.size());
    if (count < kMostFields) fields_[count] = rest.substr(0, end);
    if (end == rest.size()) break;
    rest.remove_prefix(end + 1);
  }
  ++count;
  const Form* form = nullptr;
  for (const Form& f : kForms)
    if (f.word == fields_[0]) form = &f;
  if (form == nullptr)
    return mistake("unknown kind of row '" + std::string(fields_[0]) + "'",
                   "gemm, grouped_gemm, attention, memory, copy or collective");
  if (count != form->fields)
    return mistake("a row of '" + std::string(form->word) + "' has " +
                   std::to_string(form->fields) + " fields, not " + std::to_string(count));
  PlanRow r;
  switch (form->family) {
    case Family::gemm: read_product(r.work, false); break;
    case Family::grouped_gemm: read_product(r.work, true); break;
    case Family::attention: read_attention(r.work); break;
    case Family::memory: read_memory(r.work); break;
    case Family::copy: read_copy(r.work); break;
    case Family::collective: read_collective(r); break;
  }
  r.weight = number(fields_[count - 2], "the weight");
  r.origin = word(fields_[count - 1], Origin::roofline, "origin");
  out.rows.push_back(r);
}

void PlanReader::header(PlanText& out) {
  std::string_view rest = row_.substr(1);
  if (rest.starts_with(' ')) rest.remove_prefix(1);
  const size_t colon = rest.find(": ");
  if (colon == std::string_view::npos) return;  // a remark
  const std::string_view key = rest.substr(0, colon);
  const std::string_view value = rest.substr(colon + 2);
  if (key == "format") format_ = whole(value, "the format");
  if (key == "gpu") out.gpu = std::string(value);
  if (key == "shapes") shapes_ = whole(value, "the number of shapes", 0);
  if (key == "scenario") out.scenarios.emplace_back(value);
}

PlanText PlanReader::read() {
  PlanText out;
  if (!next_line() || row_ != kMagic) {
    problem("E340", "not a calibration plan",
            "the first line must be '" + std::string(kMagic) +
                "'; `stepcast calibrate plan` "
                "writes one");
    throw InputError(problems_);
  }
  while (next_line()) {
    if (row_.empty()) continue;
    if (row_.front() == '#') {
      header(out);
    } else {
      row(out);
    }
    if (format_ > kFormat) {
      problem("E340", "plan format " + std::to_string(format_) +
                          " is newer than this version of Stepcast reads (" +
                          std::to_string(kFormat) + ")");
      throw InputError(problems_);
    }
  }
  row_ = {};
  if (format_ == 0) problem("E340", "the header has no '# format: 1'");
  if (out.gpu.empty()) problem("E340", "the header has no '# gpu: NAME'");
  if (problems_.empty() && shapes_ && *shapes_ != std::ssize(out.rows))
    problem("E340",
            "the header counts " + std::to_string(*shapes_) + " shapes, and there are " +
                std::to_string(out.rows.size()) + ": the plan was cut off or edited",
            "a plan without the line '# shapes: N' is taken as it is");
  if (!problems_.empty()) throw InputError(problems_);
  return out;
}

}  // namespace

std::string plan_key(const PlanRow& row) {
  const Work& w = row.work;
  switch (w.kind) {
    case WorkKind::gemm: return row_text(gemm_row(w));
    case WorkKind::grouped_gemm: return "grouped_" + row_text(gemm_row(w));
    case WorkKind::attention_forward:
    case WorkKind::attention_backward: {
      std::string text = row_text(attention_row(w));
      if (w.value_dim != 0 && w.value_dim != w.k)
        text.insert(text.rfind(','), '/' + std::to_string(w.value_dim));
      return text;
    }
    case WorkKind::memory_bound: {
      MemoryRow r;
      r.kernel = w.kernel;
      r.bytes = w.bytes.value;
      return row_text(r);
    }
    case WorkKind::host_copy: {
      CopyRow r;
      r.kind = CopyKind::h2d;
      r.bytes = w.bytes.value;
      return row_text(r);
    }
    default: break;
  }
  STEPCAST_CHECK(is_communication(w.kind) && w.kind != WorkKind::shift, describe(w));
  CollectiveRow r;
  r.kind = w.kind;
  r.ranks = row.ranks;
  r.nodes = row.nodes;
  r.ranks_per_node = row.ranks_per_node;
  r.nic_gbs = row.nic_gbs;
  r.bytes = w.bytes.value;
  return row_text(r);
}

PlanText parse_plan_text(std::string_view text, const std::string& file_name) {
  return PlanReader(text, file_name).read();
}

std::string write_plan(const PlanText& plan) {
  std::string text = std::string(kMagic) + "\n# format: " + std::to_string(kFormat) +
                     "\n# gpu: " + plan.gpu + '\n';
  for (const std::string& s : plan.scenarios) text += "# scenario: " + s + '\n';
  text += "# shapes: " + std::to_string(plan.rows.size()) + '\n';
  text += "# rows: shape as in a cost table, share of the step's time, how it is priced now\n";
  for (const PlanRow& r : plan.rows)
    text += plan_key(r) + ',' + weight_text(r.weight) + ',' + std::string(name_of(r.origin)) + '\n';
  return text;
}

}  // namespace stepcast
