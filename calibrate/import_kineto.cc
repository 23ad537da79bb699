// SPDX-License-Identifier: Apache-2.0
#include "calibrate/import_kineto.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "calibrate/kineto_ops.h"
#include "calibrate/nccl_rows.h"
#include "calibrate/table_sources.h"

namespace stepcast {
namespace {

constexpr size_t kNamed = 20;  // kernels that notes name

std::string fixed(double value, int places) {
  std::array<char, 400> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value,
                                 std::chars_format::fixed, places);
  return {text.data(), end.ptr};
}

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
    return key.nodes == 1 || in_.options.nic_gbs > 0;
  }

  void report() const {
    in_.note("used " + std::to_string(used_) + " of " + std::to_string(trace_.kernels.size()) +
             " kernels, " + fixed(100 * used_us_ / total_us_, 1) + " % of their time");
    if (unplaced_ > 0)
      in_.note(std::to_string(unplaced_) +
               " collectives are not used: their nodes or the network between them are not "
               "stated (--ranks-per-node, --nic)");
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < unused_.size(); ++i)
      if (unused_[i].launches > 0) order.push_back(i);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return std::tie(unused_[b].us, trace_.names[a]) < std::tie(unused_[a].us, trace_.names[b]);
    });
    for (size_t i = 0; i < std::min(order.size(), kNamed); ++i) {
      const Unused& u = unused_[order[i]];
      in_.note("not used: " + std::to_string(u.launches) + " x " +
               trace_.names[order[i]].substr(0, 80) + ", " + fixed(u.us / 1000, 3) + " ms");
    }
    if (order.size() > kNamed)
      in_.note("not used: " + std::to_string(order.size() - kNamed) + " other kernels");
  }

  TableText table() const {
    TableText t;
    t.gpu = measured_gpu(in_, trace_.devices.empty() ? std::string() : trace_.devices[0]);
    if (!trace_.cuda_version.empty()) t.software = "CUDA " + trace_.cuda_version;
    if (!trace_.nccl_version.empty())
      t.software += (t.software.empty() ? "NCCL " : ", NCCL ") + trace_.nccl_version;
    t.conditions.push_back("kernels of a real run, as the PyTorch profiler saw them");
    const std::string file = file_stem(in_.file);
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
      r.us = rounded_figure(us);
      r.source = 2;
      t.collectives.push_back(r);
    }
    if (!t.collectives.empty() && !take_link_conditions(in_, t)) {
      in_.note(std::to_string(t.collectives.size()) +
               " shapes of collectives left out: --nvlink RATE" +
               " would say over which NVLink they ran");
      t.collectives.clear();
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
      r.us = rounded_figure(s.median);
      r.spread = rounded_figure(s.spread);
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
    r.us = rounded_figure(s.median);
    r.spread = rounded_figure(s.spread);
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

TableText import_kineto(const MeasurementInput& in) {
  return KinetoRows(in).read();
}

}  // namespace stepcast
