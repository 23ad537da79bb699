// SPDX-License-Identifier: Apache-2.0
// Traces of the PyTorch profiler (Kineto): the kernels of a real run whose shapes it states.
//
//   matrix products  aten::mm, addmm, bmm, baddbmm, _scaled_mm with "Input Dims", "Input Strides",
//                    "Input type" (record_shapes=True): the kernels that a call launched, together
//   attention        flash and cuDNN attention of aten:: and flash_attn::, of equal lengths
//   collectives      NCCL's kernels, which name collective, elements, type and group
//
// Rows are medians over the calls, with their spread.  A collective's kernel also waits for the
// last rank: the fastest one counts, and its row is derived.  Everything else is counted by kernel.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "calibrate/import/measurement_input.h"
#include "calibrate/table/table_text.h"
#include "sim/graph/work.h"

namespace stepcast {

namespace {

using nlohmann::json;

// ---- The events that importing needs, read as a stream: a trace of a few steps has hundreds of
// megabytes.

// An argument of an operator: a shape or strides, or the word that stands for a scalar.
struct TraceArgument {
  std::vector<int64_t> sizes;
  std::string word;
  bool nested = false;  // a list of tensors
};

// One call of an operator (category cpu_op), with what record_shapes=True adds.
struct TraceOp {
  std::string name;
  int64_t external = -1;  // ties kernels to it
  std::vector<TraceArgument> dims, strides, types, concrete;
};

// What NCCL's kernels carry.
struct TraceCollective {
  std::string name, dtype, ranks;  // "_allgather_base", "BFloat16", "[0, 1, 2, 3]"
  int64_t in_elements = -1, out_elements = -1, group = 0;
};

struct TraceKernel {
  uint32_t name = 0;  // index into KinetoTrace::names
  double us = 0;
  int64_t external = -1, correlation = -1;
  int32_t collective = -1;  // index into KinetoTrace::collectives; -1: it is none
};

struct KinetoTrace {
  std::vector<std::string> names;  // of kernels, by first appearance
  std::vector<TraceKernel> kernels;
  std::vector<TraceCollective> collectives;
  std::vector<TraceOp> ops;  // those that `wanted` names
  // The runtime's calls: correlation -> external id.  Only looked up.
  std::unordered_map<int64_t, int64_t> launched_by;
  std::vector<std::string> devices;  // names
  std::string nccl_version, cuda_version;
};

// Events as they stand in the file: {"traceEvents": [{"ph": .., "cat": .., "args": {..}}, ..]}.
// `depth_` counts open objects and arrays.
class TraceReader {
 public:
  explicit TraceReader(bool (*wanted)(std::string_view)) : wanted_(wanted) {}

  // The handler that nlohmann's parser calls.
  bool null() { return item({}); }
  bool boolean(bool value) { return word(value ? "True" : "False"); }
  bool number_integer(int64_t value) { return whole(value); }
  bool number_unsigned(uint64_t value) {
    return whole(value > uint64_t{INT64_MAX} ? -1 : static_cast<int64_t>(value));
  }
  bool number_float(double value, const std::string& /*text*/) {
    if (in_events_ && depth_ == kEvent && field_ == "dur") us_ = value;
    return item({});
  }
  bool string(std::string& value) { return word(value); }
  bool binary(json::binary_t& /*value*/) { return true; }

  bool key(std::string& name) {
    if (depth_ == kRoot) top_ = name;
    if (depth_ == kRoot + 1 && top_ == "distributedInfo") field_ = name;
    if (depth_ == kEvent) field_ = name;
    if (depth_ == kArguments) argument_ = name;
    return true;
  }
  bool start_object(size_t /*elements*/) {
    ++depth_;
    if (in_events_ && depth_ == kEvent) clear();
    if (in_events_ && depth_ == kArguments) in_arguments_ = field_ == "args";
    return true;
  }
  bool end_object() {
    if (in_events_ && depth_ == kEvent) finish();
    if (depth_ == kArguments) in_arguments_ = false;
    --depth_;
    return true;
  }
  bool start_array(size_t /*elements*/) {
    ++depth_;
    if (depth_ == kRoot + 1) in_events_ = top_ == "traceEvents";
    if (!in_arguments_) return true;
    if (depth_ == kList) list_.clear();
    if (depth_ == kList + 1) list_.emplace_back();
    if (depth_ > kList + 1 && !list_.empty()) list_.back().nested = true;
    return true;
  }
  bool end_array() {
    if (in_arguments_ && depth_ == kList) store_list();
    if (depth_ == kRoot + 1) in_events_ = false;
    --depth_;
    return true;
  }
  bool parse_error(size_t byte, const std::string& /*token*/, const json::exception& /*error*/) {
    error_byte = byte == 0 ? 0 : byte - 1;
    return false;
  }

  KinetoTrace trace;
  size_t error_byte = 0;

 private:
  static constexpr int kRoot = 1, kEvent = 3, kArguments = 4, kList = 5;

  void clear() {
    phase_.clear();
    category_.clear();
    us_ = -1;
    correlation_ = -1;
    op_ = {};
    collective_ = {};
  }

  // One value of a list of arguments.
  bool item(TraceArgument value) {
    if (in_arguments_ && depth_ == kList) list_.push_back(std::move(value));
    return true;
  }

  bool whole(int64_t value) {
    if (depth_ == kRoot && top_ == "cuda_runtime_version") trace.cuda_version = version(value);
    if (!in_events_) return true;
    if (depth_ == kEvent && field_ == "dur") us_ = static_cast<double>(value);
    if (!in_arguments_) return true;
    if (depth_ == kList + 1 && !list_.empty()) list_.back().sizes.push_back(value);
    if (depth_ == kList) return item({});
    if (depth_ != kArguments) return true;
    if (argument_ == "External id" || argument_ == "external id") op_.external = value;
    if (argument_ == "correlation") correlation_ = value;
    if (argument_ == "In msg nelems") collective_.in_elements = value;
    if (argument_ == "Out msg nelems") collective_.out_elements = value;
    if (argument_ == "Group size") collective_.group = value;
    return true;
  }

  bool word(std::string value) {
    if (depth_ == kEvent && top_ == "deviceProperties" && field_ == "name")
      trace.devices.push_back(value);
    if (depth_ == kRoot + 1 && top_ == "distributedInfo" && field_ == "nccl_version")
      trace.nccl_version = value;
    if (!in_events_) return true;
    if (depth_ == kEvent && field_ == "ph")
      phase_ = std::move(value);
    else if (depth_ == kEvent && field_ == "cat")
      category_ = std::move(value);
    else if (depth_ == kEvent && field_ == "name")
      op_.name = std::move(value);
    else if (in_arguments_ && depth_ == kList)
      return item({{}, std::move(value), false});
    else if (!in_arguments_ || depth_ != kArguments)
      return true;
    else if (argument_ == "Collective name")
      collective_.name = std::move(value);
    else if (argument_ == "dtype")
      collective_.dtype = std::move(value);
    else if (argument_ == "Process Group Ranks")
      collective_.ranks = std::move(value);
    return true;
  }

  // 12060 -> "12.6"
  static std::string version(int64_t code) {
    return code <= 0 ? std::string() : fmt::format("{}.{}", code / 1000, code % 1000 / 10);
  }

  void store_list() {
    if (argument_ == "Input Dims")
      op_.dims = std::move(list_);
    else if (argument_ == "Input Strides")
      op_.strides = std::move(list_);
    else if (argument_ == "Input type")
      op_.types = std::move(list_);
    else if (argument_ == "Concrete Inputs")
      op_.concrete = std::move(list_);
    list_.clear();
  }

  void finish() {
    if (phase_ != "X") return;
    if (category_ == "kernel") {
      if (us_ > 0) kernel();
    } else if (category_ == "cpu_op") {
      if (op_.external >= 0 && wanted_(op_.name)) trace.ops.push_back(std::move(op_));
    } else if (category_ == "cuda_runtime" || category_ == "cuda_driver") {
      if (correlation_ >= 0 && op_.external >= 0)
        trace.launched_by.try_emplace(correlation_, op_.external);
    }
  }

  void kernel() {
    TraceKernel k;
    const auto [found, is_new] =
        name_index_.try_emplace(op_.name, static_cast<uint32_t>(trace.names.size()));
    if (is_new) trace.names.push_back(op_.name);
    k.name = found->second;
    k.us = us_;
    k.external = op_.external;
    k.correlation = correlation_;
    if (!collective_.name.empty()) {
      k.collective = static_cast<int32_t>(trace.collectives.size());
      trace.collectives.push_back(std::move(collective_));
    }
    trace.kernels.push_back(k);
  }

  bool (*wanted_)(std::string_view);
  int depth_ = 0;
  bool in_events_ = false, in_arguments_ = false;
  std::string top_, field_, argument_;  // the last key at each level
  std::vector<TraceArgument> list_;
  // The event in hand; op_.name and op_.external are those of any event.
  std::string phase_, category_;
  double us_ = -1;
  int64_t correlation_ = -1;
  TraceOp op_;
  TraceCollective collective_;
  std::unordered_map<std::string, uint32_t> name_index_;
};

// Keeps the operators for which `wanted` is true.  Throws E333 if the JSON is broken or cut off.
KinetoTrace read_kineto_trace(const MeasurementInput& in, bool (*wanted)(std::string_view op)) {
  TraceReader reader(wanted);
  if (!json::sax_parse(in.text.begin(), in.text.end(), &reader))
    refuse_measurements(in, "E333", "a trace that is broken or was cut off",
                        "the profiler has to end before the file is complete",
                        place_of(in.text, reader.error_byte));
  return std::move(reader.trace);
}

// ---- Operators of PyTorch whose kernels are rows of a table: what their arguments say.

// A row of gemm, or of attention (heads > 0).
struct OpShape {
  DType dtype{};
  GemmLayout layout{};
  int64_t m = 0, n = 0, k = 0, batch = 1;
  int64_t heads = 0, kv_heads = 0;
  bool causal = false, backward = false;
  auto operator<=>(const OpShape&) const = default;
};

constexpr int64_t kLongestSide = int64_t{1} << 30;

// Which argument is what (native_functions.yaml of PyTorch 2.x; flash_attn 2.x).
struct ProductOp {
  std::string_view name;
  size_t a;  // b is the next one
  bool batched;
};
constexpr std::array<ProductOp, 5> kProducts{{{"aten::mm", 0, false},
                                              {"aten::addmm", 1, false},
                                              {"aten::_scaled_mm", 0, false},
                                              {"aten::bmm", 0, true},
                                              {"aten::baddbmm", 1, true}}};

struct AttentionOp {
  std::string_view name;
  size_t query;  // key and value are the next two
  size_t causal;
  bool heads_first;  // [batch, heads, length, dim]; else [batch, length, heads, dim]
  bool backward;
};
constexpr std::array<AttentionOp, 10> kAttentions{{
    {"aten::_flash_attention_forward", 0, 8, false, false},
    {"aten::_scaled_dot_product_flash_attention", 0, 4, true, false},
    {"aten::_scaled_dot_product_cudnn_attention", 0, 6, true, false},
    {"aten::_cudnn_attention_forward", 0, 10, true, false},
    {"flash_attn::_flash_attn_forward", 0, 5, false, false},
    {"aten::_flash_attention_backward", 1, 11, false, true},
    {"aten::_scaled_dot_product_flash_attention_backward", 1, 11, true, true},
    {"aten::_scaled_dot_product_cudnn_attention_backward", 1, 14, true, true},
    {"aten::_cudnn_attention_backward", 1, 14, true, true},
    {"flash_attn::_flash_attn_backward", 1, 11, false, true},
}};

template <class Table>
auto find_op(const Table& table, std::string_view name) -> const typename Table::value_type* {
  for (const auto& op : table)
    if (op.name == name) return &op;
  return nullptr;
}

// The shape of an argument with `rank` sizes, all of them above 0; nullptr if it has another one.
const std::vector<int64_t>* sizes_of(const std::vector<TraceArgument>& all, size_t i, size_t rank) {
  if (i >= all.size() || all[i].nested || all[i].sizes.size() != rank) return nullptr;
  for (const int64_t s : all[i].sizes)
    if (s < 1 || s > kLongestSide) return nullptr;
  return &all[i].sizes;
}

// Whether the last two dimensions lie transposed; nullopt: strides are not recorded or neither is
// dense.
std::optional<bool> transposed(const TraceOp& op, size_t i, const std::vector<int64_t>& sizes) {
  if (i >= op.strides.size() || op.strides[i].sizes.size() != sizes.size()) return std::nullopt;
  const std::vector<int64_t>& strides = op.strides[i].sizes;
  const size_t last = sizes.size() - 1;
  if (strides[last] == 1 || sizes[last] == 1) return false;
  if (strides[last - 1] == 1 || sizes[last - 1] == 1) return true;
  return std::nullopt;
}

std::optional<DType> type_of(const TraceOp& op, size_t i) {
  if (i >= op.types.size()) return std::nullopt;
  return foreign_dtype(op.types[i].word);
}

std::optional<OpShape> product(const TraceOp& op, const ProductOp& form) {
  const size_t rank = form.batched ? 3 : 2;
  const std::vector<int64_t>* a = sizes_of(op.dims, form.a, rank);
  const std::vector<int64_t>* b = sizes_of(op.dims, form.a + 1, rank);
  if (a == nullptr || b == nullptr || (*a)[rank - 1] != (*b)[rank - 2]) return std::nullopt;
  if (form.batched && (*a)[0] != (*b)[0]) return std::nullopt;
  const std::optional<DType> type = type_of(op, form.a);
  const std::optional<bool> a_lies = transposed(op, form.a, *a);
  const std::optional<bool> b_lies = transposed(op, form.a + 1, *b);
  if (!type || !a_lies || !b_lies || (*a_lies && *b_lies)) return std::nullopt;
  OpShape s;
  s.dtype = *type;
  // x W^T is the forward product, dy W the input gradient, dy^T x the weight gradient.
  s.layout = *b_lies ? GemmLayout::tn : *a_lies ? GemmLayout::nt : GemmLayout::nn;
  s.m = (*a)[rank - 2];
  s.k = (*a)[rank - 1];
  s.n = (*b)[rank - 1];
  s.batch = form.batched ? (*a)[0] : 1;
  return s;
}

std::optional<OpShape> attention(const TraceOp& op, const AttentionOp& form) {
  const std::vector<int64_t>* q = sizes_of(op.dims, form.query, 4);
  const std::vector<int64_t>* k = sizes_of(op.dims, form.query + 1, 4);
  const std::vector<int64_t>* v = sizes_of(op.dims, form.query + 2, 4);
  if (q == nullptr || k == nullptr || v == nullptr) return std::nullopt;
  const std::optional<DType> type = type_of(op, form.query);
  if (!type || form.causal >= op.concrete.size()) return std::nullopt;
  const std::string& causal = op.concrete[form.causal].word;
  if (causal != "True" && causal != "False") return std::nullopt;
  const size_t heads = form.heads_first ? 1 : 2, length = form.heads_first ? 2 : 1;
  const int64_t dims = (*q)[3] + (*v)[3];
  if (dims % 2 != 0 || (*k)[length] != (*v)[length] || (*q)[0] != (*k)[0]) return std::nullopt;
  OpShape s;
  s.dtype = *type;
  s.causal = causal == "True";
  s.backward = form.backward;
  s.batch = (*q)[0];
  s.heads = (*q)[heads];
  s.kv_heads = (*k)[heads];
  s.m = (*q)[length];
  s.n = (*k)[length];
  s.k = dims / 2;
  return s;
}

// Whether an operator of this name may have a shape.
bool is_shaped_op(std::string_view name) {
  return find_op(kProducts, name) != nullptr || find_op(kAttentions, name) != nullptr;
}

// nullopt: the shape or the layout is not recorded, or tables have no rows of its form.
std::optional<OpShape> shape_of_op(const TraceOp& op) {
  if (const ProductOp* form = find_op(kProducts, op.name)) return product(op, *form);
  if (const AttentionOp* form = find_op(kAttentions, op.name)) return attention(op, *form);
  return std::nullopt;
}

// ---- Kernels tied to operators, and their times made into rows.

constexpr size_t kNamed = 20;  // kernels that notes name

// The collective of a kernel; bytes as nccl-tests counts them.
struct CollectiveKey {
  WorkKind kind{};
  int64_t ranks = 0, nodes = 0, ranks_per_node = 0, bytes = 0;
  auto operator<=>(const CollectiveKey&) const = default;
};

// torch.distributed's names (ProcessGroupNCCL.cpp).
std::optional<WorkKind> collective_kind(std::string_view name) {
  if (name == "allreduce" || name == "all_reduce") return WorkKind::all_reduce;
  if (name == "_allgather_base" || name == "allgather" || name == "all_gather")
    return WorkKind::all_gather;
  if (name == "_reduce_scatter_base" || name == "reduce_scatter") return WorkKind::reduce_scatter;
  if (name == "all_to_all" || name == "alltoall") return WorkKind::all_to_all;
  if (name == "broadcast") return WorkKind::broadcast;
  return std::nullopt;
}

double element_bytes(std::string_view dtype) {
  if (dtype == "Double" || dtype == "Long") return 8;
  if (dtype == "Int") return 4;
  const std::optional<DType> known = foreign_dtype(dtype);
  return known ? bytes_per_element(*known) : 0;
}

class KinetoRows {
 public:
  explicit KinetoRows(const MeasurementInput& in)
      : in_(in), trace_(read_kineto_trace(in, is_shaped_op)) {}

  TableText read() {
    if (trace_.kernels.empty())
      refuse_measurements(in_, "E330", "a trace without kernels",
                          "profile with ProfilerActivity.CUDA");
    tie_kernels();
    for (const auto& [external, call] : calls_)
      if (call.us > 0) samples_[call.shape].push_back(call.us);
    report();
    if (samples_.empty() && collectives_.empty())
      refuse_measurements(in_, "E330", "no kernel of this trace has a shape that tables have",
                          "profile with record_shapes=True; shapes of matrix products need the "
                          "strides that PyTorch 2.2 and later record");
    return table();
  }

 private:
  struct Call {
    OpShape shape;
    double us = 0;  // of all its kernels
  };
  struct Unused {
    int64_t launches = 0;
    double us = 0;
  };

  void tie_kernels() {
    for (const TraceOp& op : trace_.ops)
      if (const std::optional<OpShape> shape = shape_of_op(op))
        calls_.try_emplace(op.external, Call{*shape, 0});
    unused_.resize(trace_.names.size());
    for (const TraceKernel& k : trace_.kernels) {
      total_us_ += k.us;
      if (k.collective >= 0 ? collective(k) : computation(k)) {
        ++used_;
        used_us_ += k.us;
        continue;
      }
      ++unused_[k.name].launches;
      unused_[k.name].us += k.us;
    }
  }

  bool computation(const TraceKernel& k) {
    int64_t external = k.external;
    if (external < 0) {
      const auto launch = trace_.launched_by.find(k.correlation);
      if (launch != trace_.launched_by.end()) external = launch->second;
    }
    const auto call = calls_.find(external);
    if (call == calls_.end()) return false;
    call->second.us += k.us;
    // "float" is either; the kernel tells.
    if (call->second.shape.dtype == DType::fp32 &&
        trace_.names[k.name].find("tf32") != std::string::npos)
      call->second.shape.dtype = DType::tf32;
    return true;
  }

  bool collective(const TraceKernel& k) {
    const TraceCollective& c = trace_.collectives[static_cast<size_t>(k.collective)];
    const std::optional<WorkKind> kind = collective_kind(c.name);
    if (!kind || c.group < 2) return false;
    const double elements =
        static_cast<double>(*kind == WorkKind::all_gather ? c.out_elements : c.in_elements);
    const double bytes = elements * element_bytes(c.dtype);
    if (!(bytes >= 1) || bytes > 1e15) return false;
    CollectiveKey key;
    key.kind = *kind;
    key.ranks = c.group;
    key.bytes = static_cast<int64_t>(bytes);
    if (!place_group(c, key)) {
      ++unplaced_;
      return false;
    }
    double& fastest = collectives_.try_emplace(key, k.us).first->second;
    fastest = std::min(fastest, k.us);
    return true;
  }

  // Nodes of a group whose ranks are listed; ranks are numbered node by node.
  bool place_group(const TraceCollective& c, CollectiveKey& key) const {
    int64_t per_node = in_.options.ranks_per_node;
    if (per_node == 0) per_node = static_cast<int64_t>(trace_.devices.size());
    if (per_node < 1) return false;
    std::map<int64_t, int64_t> on_node;
    std::set<int64_t> ranks;
    int64_t value = -1;
    for (const char letter : c.ranks + "]") {
      if (letter >= '0' && letter <= '9') {
        value = std::max<int64_t>(value, 0) * 10 + (letter - '0');
        if (value > (1 << 24)) return false;
      } else if (value >= 0) {
        if (ranks.insert(value).second) ++on_node[value / per_node];
        value = -1;
      }
    }
    if (static_cast<int64_t>(ranks.size()) != key.ranks) return false;  // a list cut short
    key.nodes = static_cast<int64_t>(on_node.size());
    key.ranks_per_node = on_node.begin()->second;
    for (const auto& [node, count] : on_node)
      if (count != key.ranks_per_node) return false;
    return key.nodes == 1 || (in_.options.nic_gbs > 0 && in_.options.network);
  }

  void report() const {
    in_.note(fmt::format("used {} of {} kernels, {:.1f} % of their time", used_,
                         trace_.kernels.size(), 100 * used_us_ / total_us_));
    if (unplaced_ > 0)
      in_.note(
          fmt::format("{} collectives are not used: their nodes or the network between them are "
                      "not stated (--ranks-per-node, --nic, --network)",
                      unplaced_));
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < unused_.size(); ++i)
      if (unused_[i].launches > 0) order.push_back(i);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return std::tie(unused_[b].us, trace_.names[a]) < std::tie(unused_[a].us, trace_.names[b]);
    });
    for (size_t i = 0; i < std::min(order.size(), kNamed); ++i) {
      const Unused& u = unused_[order[i]];
      in_.note(fmt::format("not used: {} x {}, {:.3f} ms", u.launches,
                           trace_.names[order[i]].substr(0, 80), u.us / 1000));
    }
    if (order.size() > kNamed)
      in_.note(fmt::format("not used: {} other kernels", order.size() - kNamed));
  }

  TableText table() const {
    TableText t;
    t.gpu = measured_gpu(in_, trace_.devices.empty() ? std::string() : trace_.devices[0]);
    if (!trace_.cuda_version.empty()) t.software = "CUDA " + trace_.cuda_version;
    if (!trace_.nccl_version.empty())
      t.software += (t.software.empty() ? "NCCL " : ", NCCL ") + trace_.nccl_version;
    t.conditions.push_back("kernels of a real run, as the PyTorch profiler saw them");
    const std::string file = base_name_of(in_.file);
    t.sources.push_back({"kineto", false, "kernels of the PyTorch profiler's trace " + file});
    t.sources.push_back({"kineto-nt", true,
                         "weight gradients of the trace " + file +
                             ", written in the operands' type instead of added into fp32"});
    t.sources.push_back({"kineto-nccl", true,
                         "fastest kernel of each collective of the trace " + file +
                             ": it may have waited for other ranks"});
    for (const auto& [shape, times] : samples_) {
      const bool nt = shape.heads == 0 && shape.layout == GemmLayout::nt;
      add(t, shape, summarize_samples(times), nt ? 1 : 0);
    }
    for (const auto& [key, us] : collectives_) {
      CollectiveRow r;
      r.kind = key.kind;
      r.ranks = key.ranks;
      r.nodes = key.nodes;
      r.ranks_per_node = key.ranks_per_node;
      r.nic_gbs = key.nodes > 1 ? in_.options.nic_gbs : 0;
      r.bytes = key.bytes;
      r.us = rounded(us, 5);
      r.source = 2;
      t.collectives.push_back(r);
    }
    if (!t.collectives.empty() && !take_link_conditions(in_, t)) {
      in_.note(fmt::format(
          "{} shapes of collectives left out: --nvlink RATE would say over which NVLink they ran",
          t.collectives.size()));
      t.collectives.clear();
    }
    if (!t.collectives.empty())
      t.sources[2].wires = {.inside = measured_inside(in_, t),
                            .network = in_.options.network,
                            .sharp = in_.options.sharp.value_or(false),
                            .one_process = in_.options.one_process.value_or(false)};
    for (TableSource& s : t.sources) {
      s.kind = TimingKind::training;
      s.data = TimingData::random;
    }
    drop_unused_sources(t);
    return t;
  }

  static void add(TableText& t, const OpShape& shape, const SampleSummary& s, uint16_t source) {
    if (shape.heads == 0) {
      GemmRow r;
      r.dtype = shape.dtype;
      r.layout = shape.layout;
      std::tie(r.m, r.n, r.k, r.batch) = std::tie(shape.m, shape.n, shape.k, shape.batch);
      r.us = rounded(s.median, 5);
      r.spread = rounded(s.spread, 5);
      r.source = source;
      t.gemms.push_back(r);
      return;
    }
    AttentionRow r;
    r.backward = shape.backward;
    r.dtype = shape.dtype;
    r.causal = shape.causal;
    std::tie(r.m, r.n, r.k, r.batch) = std::tie(shape.m, shape.n, shape.k, shape.batch);
    std::tie(r.heads, r.kv_heads) = std::tie(shape.heads, shape.kv_heads);
    r.us = rounded(s.median, 5);
    r.spread = rounded(s.spread, 5);
    r.source = source;
    t.attentions.push_back(r);
  }

  const MeasurementInput& in_;
  KinetoTrace trace_;
  std::map<int64_t, Call> calls_;  // by external id
  std::map<OpShape, std::vector<double>> samples_;
  std::map<CollectiveKey, double> collectives_;  // the fastest
  std::vector<Unused> unused_;                   // by name
  int64_t used_ = 0, unplaced_ = 0;
  double used_us_ = 0, total_us_ = 0;
};

}  // namespace

bool is_kineto_trace(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && text[begin] == '{' &&
         text.find("\"traceEvents\"") != std::string_view::npos;
}

TableText import_kineto(const MeasurementInput& in) {
  return KinetoRows(in).read();
}

}  // namespace stepcast
