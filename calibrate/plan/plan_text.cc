// SPDX-License-Identifier: Apache-2.0
#include "calibrate/plan/plan_text.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "calibrate/table/attention_prices.h"
#include "calibrate/table/row_reader.h"
#include "calibrate/table/table_text.h"
#include "sim/check.h"

namespace stepcast {
namespace {

constexpr std::string_view kMagic = "# stepcast calibration plan";
constexpr int64_t kFormat = 1;

// Keys of w.k, values of w.value_dim elements.
void set_attention_flops(Work& w) {
  w.flops = attention_flops(attention_row(w));
  if (w.value_dim == 0) return;
  w.flops.value *= static_cast<double>(w.k + w.value_dim) / static_cast<double>(2 * w.k);
}

class PlanReader {
 public:
  PlanReader(std::string_view text, const std::string& file) : in_(text, file, "E341", "E341") {}

  PlanText read();

 private:
  void problem(std::string message, std::string help = {}) {
    in_.problem("E340", {}, std::move(message), std::move(help));
  }
  void mistake(std::string_view at, std::string message, std::string help = {}) {
    in_.problem("E341", at, std::move(message), std::move(help));
  }
  void header(PlanText& out);
  void row(PlanText& out);

  void read_product(Work& w, bool grouped);
  void read_attention(Work& w);
  void read_memory(Work& w);
  void read_copy(Work& w);
  void read_collective(PlanRow& r);

  int64_t whole(size_t at, std::string_view what, int64_t least = 1) {
    return in_.whole(in_.fields[at], what, least);
  }
  double number(size_t at, std::string_view what) {
    return in_.number(in_.fields[at], what, NumberRange::from_zero);
  }

  RowReader in_;
  int64_t format_ = 0;
  std::optional<int64_t> shapes_;  // as the header counts them
};

void PlanReader::read_product(Work& w, bool grouped) {
  GemmRow r;
  r.dtype = in_.word(in_.fields[1], DType::uint8, "data type");
  r.layout = in_.word(in_.fields[2], GemmLayout::nt, "layout");
  r.m = whole(3, "m");
  r.n = whole(4, "n");
  r.k = whole(5, "k");
  r.batch = whole(6, "batch");
  w = work_of(r);
  if (grouped) w.kind = WorkKind::grouped_gemm;
}

void PlanReader::read_attention(Work& w) {
  w.kind = in_.fields[1] == "bwd" ? WorkKind::attention_backward : WorkKind::attention_forward;
  if (in_.fields[1] != "fwd" && in_.fields[1] != "bwd")
    mistake(in_.fields[1], "unknown pass '" + std::string(in_.fields[1]) + "'", "fwd or bwd");
  w.dtype = in_.word(in_.fields[2], DType::uint8, "data type");
  w.causal = whole(3, "causal", 0) != 0;
  w.heads = whole(4, "heads");
  w.kv_heads = whole(5, "kv_heads");
  w.m = whole(6, "the query length");
  w.n = whole(7, "the key length");
  const std::string_view dims = in_.fields[8];
  const size_t slash = std::min(dims.find('/'), dims.size());
  w.k = in_.whole(dims.substr(0, slash), "the head dimension");
  if (slash < dims.size())
    w.value_dim = in_.whole(dims.substr(slash + 1), "the head dimension of values");
  w.batch = whole(9, "batch");
  set_attention_flops(w);
}

void PlanReader::read_memory(Work& w) {
  w.kind = WorkKind::memory_bound;
  w.kernel = in_.word(in_.fields[1], Kernel::quantize, "kernel");
  if (w.kernel == Kernel::none) mistake(in_.fields[1], "unknown kernel 'none'");
  w.bytes = {whole(2, "bytes")};
}

void PlanReader::read_copy(Work& w) {
  w.kind = WorkKind::host_copy;
  if (in_.fields[1] != "h2d")
    mistake(in_.fields[1], "unknown copy '" + std::string(in_.fields[1]) + "'",
            "h2d, which stands for both directions");
  w.bytes = {whole(2, "bytes")};
}

void PlanReader::read_collective(PlanRow& r) {
  r.work.kind = in_.word(in_.fields[1], WorkKind::send_recv, "collective");
  if (!is_communication(r.work.kind))
    mistake(in_.fields[1], "'" + std::string(in_.fields[1]) + "' is not a collective");
  r.ranks = whole(2, "ranks", 2);
  r.nodes = whole(3, "nodes");
  r.ranks_per_node = whole(4, "ranks_per_node");
  r.nic_gbs = number(5, "nic_gbs");
  r.work.bytes = {whole(6, "bytes")};
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
  const size_t count = in_.split();
  const Form* form = nullptr;
  for (const Form& f : kForms)
    if (f.word == in_.fields[0]) form = &f;
  if (form == nullptr)
    return mistake(in_.fields[0], "unknown kind of row '" + std::string(in_.fields[0]) + "'",
                   "gemm, grouped_gemm, attention, memory, copy or collective");
  if (count != form->fields)
    return mistake(in_.line, fmt::format("a row of '{}' has {} fields, not {}", form->word,
                                         form->fields, count));
  PlanRow r;
  switch (form->family) {
    case Family::gemm: read_product(r.work, false); break;
    case Family::grouped_gemm: read_product(r.work, true); break;
    case Family::attention: read_attention(r.work); break;
    case Family::memory: read_memory(r.work); break;
    case Family::copy: read_copy(r.work); break;
    case Family::collective: read_collective(r); break;
  }
  r.weight = number(count - 2, "the weight");
  r.origin = in_.word(in_.fields[count - 1], Origin::roofline, "origin");
  out.rows.push_back(r);
}

void PlanReader::header(PlanText& out) {
  const auto said = in_.key_and_value();
  if (!said) return;  // a remark
  const auto [key, value] = *said;
  if (key == "format") format_ = in_.whole(value, "the format");
  if (key == "gpu") out.gpu = std::string(value);
  if (key == "shapes") shapes_ = in_.whole(value, "the number of shapes", 0);
  if (key == "scenario") out.scenarios.emplace_back(value);
}

PlanText PlanReader::read() {
  PlanText out;
  if (!in_.next() || in_.line != kMagic) {
    in_.problem("E340", in_.line, "not a calibration plan",
                "the first line must be '" + std::string(kMagic) +
                    "'; `stepcast calibrate plan` "
                    "writes one");
    in_.throw_if_any();
  }
  while (in_.next()) {
    if (in_.line.empty()) continue;
    if (in_.line.front() == '#') {
      header(out);
    } else {
      row(out);
    }
    if (format_ > kFormat) {
      in_.problem("E340", in_.line,
                  fmt::format("plan format {} is newer than this version of Stepcast reads ({})",
                              format_, kFormat));
      in_.throw_if_any();
    }
  }
  in_.line = {};
  if (format_ == 0) problem("the header has no '# format: 1'");
  if (out.gpu.empty()) problem("the header has no '# gpu: NAME'");
  if (!in_.has_problems() && shapes_ && *shapes_ != std::ssize(out.rows))
    problem(
        fmt::format("the header counts {} shapes, and there are {}: the plan was cut off or edited",
                    *shapes_, out.rows.size()),
        "a plan without the line '# shapes: N' is taken as it is");
  in_.throw_if_any();
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
        text.insert(text.rfind(','), fmt::format("/{}", w.value_dim));
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
  std::string text = fmt::format("{}\n# format: {}\n# gpu: {}\n", kMagic, kFormat, plan.gpu);
  for (const std::string& s : plan.scenarios) text += fmt::format("# scenario: {}\n", s);
  text += fmt::format("# shapes: {}\n", plan.rows.size());
  text += "# rows: shape as in a cost table, share of the step's time, how it is priced now\n";
  for (const PlanRow& r : plan.rows)
    text += fmt::format("{},{},{}\n", plan_key(r), number_text(r.weight, 5), name_of(r.origin));
  return text;
}

}  // namespace stepcast
