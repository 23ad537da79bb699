// SPDX-License-Identifier: Apache-2.0
#include "calibrate/import_calculon.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "calibrate/measurement_json.h"
#include "sim/graph/work.h"

namespace stepcast {
namespace {

using nlohmann::json;

// Rate (1/us) of an amount: the peak times the efficiency of the first step it reaches.
struct Curve {
  double peak = 0;
  std::vector<std::pair<double, double>> steps;  // at least, efficiency

  double us(double amount) const {
    for (const auto& [least, efficiency] : steps)
      if (amount >= least) return amount / (peak * efficiency);
    return 0;  // the reader has seen to a step at 0
  }
};

class CalculonSystem {
 public:
  explicit CalculonSystem(const MeasurementInput& in) : in_(in) {}

  TableText read() {
    const json root = parse_json(in_);
    if (!root.is_object()) broken("the file is no object");
    table_.gpu = measured_gpu(in_, "");
    table_.sources.push_back({"calculon", true,
                              "calculon system file " + file_stem(in_.file) +
                                  ": its curves of efficiency at powers of two"});
    memory_ = memory(root, "mem1");
    added_ = root.value("processing_mode", json()) != json("roofline");
    products(part(root, "matrix"));
    memory_kernels();
    if (root.contains("mem2")) copies(memory(root, "mem2"));
    networks(root.contains("networks") ? root["networks"] : json());
    return std::move(table_);
  }

 private:
  [[noreturn]] void broken(const std::string& what) const {
    refuse_measurements(in_, "E333", what, "as in calculon's systems/*.json");
  }

  const json& part(const json& object, const std::string& key) const {
    if (!object.contains(key) || !object[key].is_object()) broken("'" + key + "' is missing");
    return object[key];
  }

  double number(const json& object, const std::string& key, double least) const {
    if (!object.contains(key) || !object[key].is_number())
      broken("'" + key + "' is missing or no number");
    const double value = object[key].get<double>();
    if (!(value > least) || value > 1e9) broken("'" + key + "' is out of range");
    return value;
  }

  // `unit`: of the steps.  `peak`: units a microsecond are peak x unit_per_us.
  Curve curve(const json& steps, double unit, double peak) const {
    Curve c{peak, {}};
    if (!steps.is_array() || steps.empty()) broken("a curve of efficiency is no list");
    for (const json& s : steps) {
      if (!s.is_array() || s.size() != 2 || !s[0].is_number() || !s[1].is_number())
        broken("a step of a curve is not [at least, efficiency]");
      const double least = s[0].get<double>(), efficiency = s[1].get<double>();
      if (!(least >= 0) || !(efficiency > 0) || efficiency > 1)
        broken("a step of a curve has an efficiency outside (0, 1]");
      if (!c.steps.empty() && least * unit >= c.steps.back().first)
        broken("the steps of a curve are not in descending order");
      c.steps.emplace_back(least * unit, efficiency);
    }
    if (c.steps.back().first != 0) broken("a curve does not reach down to 0");
    return c;
  }

  Curve memory(const json& root, const std::string& key) const {
    const json& m = part(root, key);
    if (!m.contains("MB_efficiency")) broken("'" + key + "' has no MB_efficiency");
    return curve(m["MB_efficiency"], 1e6, number(m, "GBps", 0) * 1e3);
  }

  // {"tflops": t, "gflops_efficiency": {"float16": [...]}} or {"float16": {"tflops": t,
  // "gflops_efficiency": [...]}}.
  void products(const json& matrix) {
    if (matrix.contains("gflops_efficiency") && matrix["gflops_efficiency"].is_object()) {
      const double peak = number(matrix, "tflops", 0);
      for (const auto& [type, steps] : matrix["gflops_efficiency"].items())
        squares(type, curve(steps, 1e9, peak * 1e6));
      return;
    }
    for (const auto& [type, one] : matrix.items()) {
      if (!one.is_object() || !one.contains("gflops_efficiency"))
        broken("'matrix' has no gflops_efficiency");
      squares(type, curve(one["gflops_efficiency"], 1e9, number(one, "tflops", 0) * 1e6));
    }
  }

  void squares(const std::string& type, const Curve& flops) {
    const std::optional<DType> dtype = foreign_dtype(type == "float8" ? "fp8" : type);
    if (!dtype) {
      in_.note("the curve of '" + type + "' is not used: no such number type in tables");
      return;
    }
    for (int64_t n = 256; n <= 16384; n *= 2) {
      const auto side = static_cast<double>(n);
      const double compute = flops.us(2 * side * side * side);
      const double moved = memory_.us(3 * side * side * bytes_per_element(*dtype));
      GemmRow r;
      r.dtype = *dtype;
      r.layout = GemmLayout::tn;
      r.m = r.n = r.k = n;
      r.us = rounded_figure(added_ ? compute + moved : std::max(compute, moved));
      table_.gemms.push_back(r);
    }
  }

  void memory_kernels() {
    for (int64_t bytes = int64_t{1} << 16; bytes <= int64_t{1} << 32; bytes *= 4) {
      MemoryRow r;
      r.kernel = Kernel::add;
      r.bytes = bytes;
      r.us = rounded_figure(memory_.us(static_cast<double>(bytes)));
      table_.memories.push_back(r);
    }
  }

  void copies(const Curve& second) {
    for (const CopyKind kind : {CopyKind::h2d, CopyKind::d2h}) {
      for (int64_t bytes = int64_t{1} << 20; bytes <= int64_t{1} << 32; bytes *= 4) {
        CopyRow r;
        r.kind = kind;
        r.bytes = bytes;
        r.us = rounded_figure(second.us(static_cast<double>(bytes)));
        table_.copies.push_back(r);
      }
    }
  }

  // The first network joins the GPUs of a node; others join nodes and are priced by the
  // communication model, which knows more than a bandwidth of them.
  void networks(const json& all) {
    if (!all.is_array() || all.empty()) return;
    const json& n = all[0];
    if (!n.is_object()) broken("a network is no object");
    if (all.size() > 1) in_.note("networks beyond the first one are not used");
    const auto ranks = static_cast<int64_t>(number(n, "size", 0));
    const double rate = number(n, "bandwidth", 0) * 1e3 * number(n, "efficiency", 0);
    const double latency = number(n, "latency", -1) * 1e6;
    if (ranks < 2 || ranks > 1024) {
      in_.note("the first network is not used: it has no size of a node");
      return;
    }
    const json& ops = part(n, "ops");
    for (const WorkKind kind :
         {WorkKind::all_reduce, WorkKind::all_gather, WorkKind::reduce_scatter}) {
      const std::string name(name_of(kind));
      if (!ops.contains(name)) continue;
      const json& op = ops[name];
      if (!op.is_array() || op.size() != 2 || !op[0].is_number() || !op[1].is_number()) {
        in_.note(name + " is not used: an older form, without the offset of the ranks");
        continue;
      }
      const double share =
          op[0].get<double>() * (1 + op[1].get<double>() / static_cast<double>(ranks));
      if (!(share > 0) || share > 1e3) broken("'" + name + "' has no positive share");
      sweep(kind, ranks, latency, share / rate);
    }
    table_.nvlink_gbs = number(n, "bandwidth", 0);
  }

  void sweep(WorkKind kind, int64_t ranks, double latency_us, double us_per_byte) {
    for (int64_t bytes = int64_t{1} << 10; bytes <= int64_t{1} << 32; bytes *= 4) {
      CollectiveRow r;
      r.kind = kind;
      r.ranks = r.ranks_per_node = ranks;
      r.nodes = 1;
      r.bytes = bytes;
      r.us = rounded_figure(latency_us + static_cast<double>(bytes) * us_per_byte);
      table_.collectives.push_back(r);
    }
  }

  const MeasurementInput& in_;
  TableText table_;
  Curve memory_;
  bool added_ = true;  // arithmetic and memory one after the other
};

}  // namespace

bool is_calculon_system(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && text[begin] == '{' &&
         text.find("\"gflops_efficiency\"") != std::string_view::npos &&
         text.find("\"MB_efficiency\"") != std::string_view::npos;
}

TableText import_calculon(const MeasurementInput& in) {
  return CalculonSystem(in).read();
}

}  // namespace stepcast
