// SPDX-License-Identifier: Apache-2.0
#include "calibrate/kineto_trace.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace stepcast {
namespace {

using nlohmann::json;

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
    return code <= 0 ? std::string()
                     : std::to_string(code / 1000) + "." + std::to_string(code % 1000 / 10);
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

}  // namespace

bool is_kineto_trace(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && text[begin] == '{' &&
         text.find("\"traceEvents\"") != std::string_view::npos;
}

KinetoTrace read_kineto_trace(const MeasurementInput& in, bool (*wanted)(std::string_view op)) {
  TraceReader reader(wanted);
  if (!json::sax_parse(in.text.begin(), in.text.end(), &reader))
    refuse_measurements(in, "E333", "a trace that is broken or was cut off",
                        "the profiler has to end before the file is complete",
                        place_of(in.text, reader.error_byte));
  return std::move(reader.trace);
}

}  // namespace stepcast
