// SPDX-License-Identifier: Apache-2.0
#include "model/low_precision.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "model/inference.h"
#include "model/stage_writer.h"
#include "sim/check.h"

namespace stepcast {
namespace {

constexpr int64_t kScale = 4;  // bytes of a tensor's maximum, and of its scale

}  // namespace

LowFormat low_format(const Precision& p) {
  LowFormat f;
  f.dtype = DType::fp8;
  switch (p.scaling) {
    case Scaling::none: STEPCAST_CHECK(false, "there is no low precision"); break;
    case Scaling::delayed:
      f.two_copies = p.low_transposes;
      f.norm_quantizes = true;
      break;
    case Scaling::tensorwise:
      f.two_copies = p.low_transposes;
      f.maximum_first = true;
      break;
    case Scaling::blockwise: f.scaled = 128, f.scale_bytes = 4, f.two_copies = true; break;
    case Scaling::mxfp8:
      f.scaled = 32, f.scale_bytes = 1, f.two_copies = true;
      f.swizzles = true;
      break;
    case Scaling::nvfp4:
      f.dtype = DType::fp4;
      f.scaled = 16, f.scale_bytes = 1, f.two_copies = true;
      f.maximum_first = f.own_kernels = f.swizzles = true;
      break;
    case Scaling::int8:
      f.dtype = DType::int8;
      f.two_copies = f.own_kernels = true;
      break;
  }
  return f;
}

Bytes LowFormat::scale_bytes_of(int64_t values) const {
  return {scaled == 0 ? 0 : (values + scaled - 1) / scaled * scale_bytes};
}

Bytes LowFormat::bytes(int64_t values) const {
  const auto data = static_cast<int64_t>(static_cast<double>(values) * bytes_per_element(dtype));
  return Bytes{data} + scale_bytes_of(values);
}

Bytes quantize_bytes(const LowFormat& format, int64_t values, DType wide, int copies) {
  const auto read = static_cast<int64_t>(static_cast<double>(values) * bytes_per_element(wide));
  return Bytes{read} + format.bytes(values) * copies;
}

// ---------------------------------------------------------------------------------------- weights
namespace {

// The products of a pass that are cut into pieces (tp_overlap.cc), by layer and label: their
// operand or their result moves in shifts, which are named after them.
std::set<std::pair<int, std::string>> cut_products(const OpGraph& graph, const Pass& pass) {
  std::set<std::pair<int, std::string>> cut;
  for (const Op& op : pass.ops) {
    const Work& w = graph.works[static_cast<size_t>(op.work)];
    const std::string& text = graph.text(op.label);
    if (w.kind == WorkKind::shift && w.axis == Axis::tp)
      cut.emplace(op.layer, text.substr(0, text.rfind(' ')));
  }
  return cut;
}

}  // namespace

std::vector<int64_t> low_weights(const OpGraph& graph, PassId forward) {
  const Pass& pass = graph.passes[static_cast<size_t>(forward)];
  const std::set<std::pair<int, std::string>> cut = cut_products(graph, pass);
  std::set<std::pair<int, LabelId>> seen;
  std::vector<int64_t> values;
  for (const Op& op : pass.ops) {
    const Work& w = graph.works[static_cast<size_t>(op.work)];
    const bool gemm = w.kind == WorkKind::gemm || w.kind == WorkKind::grouped_gemm;
    const bool low = w.dtype == DType::fp8 || w.dtype == DType::int8 || w.dtype == DType::fp4;
    if (!gemm || !low || w.layout != GemmLayout::tn) continue;
    const bool piece = cut.contains({op.layer, graph.text(op.label)});
    if (piece && !seen.emplace(op.layer, op.label).second) continue;
    values.push_back(w.n * w.k * w.batch);
  }
  return values;
}

std::vector<Work> weight_casts(const Shard& shard, int64_t values) {
  const Precision& p = shard.plan.precision;
  const LowFormat f = low_format(p);
  std::vector<Work> works;
  const auto kernel = [&](Bytes moved) {
    works.push_back(shard.memory_bound(Kernel::quantize, moved));
  };
  if (kept_low(p)) {
    // The copy along rows has been gathered.
    if (f.two_copies) kernel(f.bytes(values) * 2);
    return works;
  }
  if (f.maximum_first) {
    kernel(shard.bytes(values, 1));
    kernel({2 * kScale});
  }
  const int copies = f.two_copies ? 2 : 1;
  const int kernels = f.own_kernels ? copies : 1;
  for (int i = 0; i < kernels; ++i)
    kernel(quantize_bytes(f, values, p.params, f.own_kernels ? 1 : copies));
  return works;
}

// MXFP8's two copies are not transposes of each other: 16 bits are gathered (in a buffer that is
// there anyway) and converted.
bool kept_low(const Precision& p) {
  return p.low_params && p.scaling != Scaling::none && p.scaling != Scaling::mxfp8;
}

// ------------------------------------------------------------------------------- in linear layers

bool StageWriter::low() const {
  return in_layer_ && s_.plan.precision.scaling != Scaling::none && !kind_.wide;
}

Work StageWriter::linear(Work gemm) const {
  const bool teacher = s_.plan.teacher && &s_.model == &*s_.plan.teacher;
  const bool stored = s_.plan.precision.weights && (teacher || !s_.plan.trains());
  if (stored && gemm.layout == GemmLayout::tn && !is_communication(gemm.kind))
    gemm.bytes = bytes_with_stored_weights(gemm, *s_.plan.precision.weights);
  if (low()) gemm.dtype = low_format(s_.plan.precision).dtype;
  return gemm;
}

void StageWriter::product(PassWriter& pass, const std::string& label, const Work& gemm) {
  if (low()) {
    const LowFormat f = low_format(s_.plan.precision);
    for (const int64_t values : {gemm.m * gemm.k, gemm.k * gemm.n}) {
      if (!f.swizzles) break;
      const Bytes scales = f.scale_bytes_of(values * gemm.batch);
      pass.compute(label + " scales", s_.memory_bound(Kernel::quantize, scales * 2));
    }
  }
  pass.compute(label, linear(gemm));
}

void StageWriter::quantize_kernel(const std::string& label, int64_t rows, int64_t width,
                                  QuantizedParts how, const std::function<Bytes(int64_t)>& moved) {
  // One kernel converts the rows of all experts with delayed scaling alone
  // (nvte_multi_cast_transpose).
  const int64_t launches = low_format(s_.plan.precision).norm_quantizes ? 1 : how.experts;
  const auto each = [&](int64_t of) { return moved((of * width + launches - 1) / launches); };
  Work work = s_.memory_bound(Kernel::quantize, each(rows));
  for (int64_t i = 0; i < launches; ++i) p_.compute(label, work);
  if (how.busiest <= rows || each(how.busiest) == work.bytes) return;
  work.kind = WorkKind::expert_wait;
  work.bytes = work.bytes * launches;
  work.busiest = (each(how.busiest) * launches).value;
  awaited_.push_back(work);
}

void StageWriter::launch_quantize(const std::string& label, int64_t rows, int64_t width, int copies,
                                  QuantizedParts how) {
  const LowFormat f = low_format(s_.plan.precision);
  const auto kernel = [&](const std::string& what, const std::function<Bytes(int64_t)>& moved) {
    quantize_kernel(label + what, rows, width, how, moved);
  };
  const auto quantize = [&](const std::string& what, int made) {
    kernel(what, [&f, made, wide = s_.plan.precision.params](int64_t values) {
      return quantize_bytes(f, values, wide, made);
    });
  };
  if (f.maximum_first) {
    kernel(" maximum", [&](int64_t values) { return s_.bytes(values, 1); });
    // Parts of one tensor have one scale.
    if (how.gathered) join_maxima(label + " maximum all-reduce", {kScale});
    kernel(" scale", [](int64_t) { return Bytes{2 * kScale}; });
  }
  if (f.own_kernels && copies == 2) {
    quantize(" quantize", 1);
    quantize(" quantize along columns", 1);
  } else {
    quantize(" quantize", copies);
  }
}

TensorIndex StageWriter::quantize_input(const std::string& label, TensorIndex& input, int64_t rows,
                                        int64_t width, TensorIndex* copy, QuantizedParts how) {
  if (!low()) return kNoTensor;
  const LowFormat f = low_format(s_.plan.precision);
  const int64_t values = std::max(rows, how.busiest) * width;
  const bool later = mode_ != ForwardMode::discard;
  const bool both = later && f.copied_at_once(how.gathered);
  const std::string name = label + " input in " + std::string(name_of(f.dtype));
  TensorIndex now = kNoTensor;
  if (input != kNoTensor && input == converted_) {
    converted_ = kNoTensor;
    if (!both) return kNoTensor;  // it is what the weight gradient reads, too
    quantize_kernel(label + " input transpose", rows, width, how,
                    [&](int64_t of) { return f.bytes(of) * 2; });
    now = std::exchange(input, p_.allocate(name, f.bytes(values), saved()));
    return now;
  }
  launch_quantize(label + " input", rows, width, both ? 2 : 1, how);
  TensorIndex kept = kNoTensor;
  if (later) kept = p_.allocate(name, f.bytes(values), saved());
  if (!later || both)
    now = p_.allocate(name + ", forward", f.bytes(values), MemoryCategory::workspace);
  if (copy == nullptr) p_.free(input);
  (copy == nullptr ? input : *copy) = kept;
  return now;
}

TensorIndex StageWriter::quantize_gradient(const std::string& label, TensorIndex& gradient,
                                           bool own, int64_t rows, int64_t width,
                                           QuantizedParts how) {
  if (!low()) return kNoTensor;
  const LowFormat f = low_format(s_.plan.precision);
  const int64_t values = std::max(rows, how.busiest) * width;
  const std::string name = label + " gradient in " + std::string(name_of(f.dtype));
  const bool both = f.copied_at_once(how.gathered);
  if (gradient != kNoTensor && gradient == converted_) {
    converted_ = kNoTensor;
    if (!both) return kNoTensor;
    quantize_kernel(label + " gradient transpose", rows, width, how,
                    [&](int64_t of) { return f.bytes(of) * 2; });
    return std::exchange(gradient, p_.allocate(name, f.bytes(values), MemoryCategory::workspace));
  }
  launch_quantize(label + " gradient", rows, width, both ? 2 : 1, how);
  const TensorIndex kept = p_.allocate(name, f.bytes(values), MemoryCategory::workspace);
  TensorIndex now = kNoTensor;
  if (both)
    now = p_.allocate(name + ", input gradient", f.bytes(values), MemoryCategory::workspace);
  if (own) p_.free(gradient);
  gradient = kept;
  return now;
}

TensorIndex StageWriter::transpose_gathered(PassWriter& pass, const std::string& label,
                                            int64_t width) {
  if (!low()) return kNoTensor;
  const LowFormat f = low_format(s_.plan.precision);
  if (!f.two_copies || f.copied_at_once(true)) return kNoTensor;
  const Phase phase = pass.phase();
  if (&pass != &p_) pass.set_phase(Phase::backward_weight);
  const Bytes bytes = f.bytes(s_.tokens * width);
  pass.compute(label + " transpose", s_.memory_bound(Kernel::quantize, bytes * 2));
  pass.set_phase(phase);
  return pass.allocate(label + " transpose", bytes, MemoryCategory::workspace);
}

void StageWriter::join_maxima(const std::string& label, Bytes bytes) {
  if (!s_.split()) return;
  Work w = s_.collective(WorkKind::all_reduce, 1);
  w.dtype = DType::fp32;
  w.bytes = bytes;
  p_.join(p_.communicate(Stream::tp, label, w));
}

// Delayed scaling: the maxima of a pass are joined over the ranks that share a tensor when the
// pass ends, and become scales (reduce_and_update_fp8_tensors).
void StageWriter::update_scales(int64_t layers, int tensors) {
  if (s_.plan.precision.scaling != Scaling::delayed || layers == 0) return;
  const Bytes bytes{layers * tensors * kScale};
  join_maxima("maxima all-reduce", bytes);
  p_.compute("scale update", s_.memory_bound(Kernel::quantize, bytes * 2));
}

}  // namespace stepcast
