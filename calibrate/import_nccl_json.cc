// SPDX-License-Identifier: Apache-2.0
// The JSON of nccl-tests -J, versions 1 and 2 of its form (NVIDIA/nccl-tests src/util.cu).
#include <nlohmann/json.hpp>

#include "calibrate/import_nccl_tests.h"
#include "calibrate/measurement_json.h"
#include "calibrate/nccl_rows.h"
#include "calibrate/nccl_sweep.h"

namespace stepcast {
namespace {

using nlohmann::json;

const json& member(const json& object, const char* key) {
  static const json kNone;
  if (!object.is_object()) return kNone;
  const auto found = object.find(key);
  return found == object.end() ? kNone : *found;
}

int64_t whole(const json& value, int64_t otherwise) {
  return value.is_number_integer() ? value.get<int64_t>() : otherwise;
}

std::string text(const json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

// 22903 -> "2.29.3"; before 2.9 with one digit less.
std::string version_name(int64_t code) {
  if (code <= 0) return {};
  const int64_t major = code >= 10000 ? code / 10000 : code / 1000;
  const int64_t rest = code >= 10000 ? code % 10000 : code % 1000;
  return std::to_string(major) + "." + std::to_string(rest / 100) + "." +
         std::to_string(rest % 100);
}

class NcclJson {
 public:
  explicit NcclJson(const MeasurementInput& in) : in_(in) {}

  std::vector<NcclSweep> read() {
    const json root = parse_json(in_);
    const json& results = member(root, "results");
    if (!results.is_array())
      refuse_measurements(in_, "E330", "a JSON file without the `results` that nccl-tests writes");
    const json& args = member(root, "args");
    if (args.is_array() && !args.empty()) sweep_.program = text(args[0]);
    sweep_.nccl_version = version_name(whole(member(root, "nccl_version"), 0));
    config(member(root, "config"));
    if (whole(member(member(root, "out_of_bounds"), "count"), 0) > 0) wrong("out_of_bounds");
    for (size_t i = 0; i < results.size(); ++i) result(results[i], i);
    return {sweep_};
  }

 private:
  [[noreturn]] void wrong(const std::string& where) const {
    refuse_measurements(in_, "E335", "the collective gave wrong results (" + where + ")",
                        "without them the times mean nothing");
  }

  [[noreturn]] void broken(size_t row, const std::string& what) const {
    refuse_measurements(in_, "E333", "results[" + std::to_string(row) + "] " + what);
  }

  void config(const json& c) {
    sweep_.ranks_per_device_line = std::max<int64_t>(1, whole(member(c, "nthreads"), 1)) *
                                   std::max<int64_t>(1, whole(member(c, "ngpus"), 1));
    sweep_.checked = whole(member(c, "validation"), 1) != 0;
    sweep_.graph = whole(member(c, "graph"), 0) != 0;
    sweep_.aggregated = whole(member(c, "aggregated_iterations"), 1);
    const json& devices = member(c, "devices");
    if (!devices.is_array()) return;
    for (const json& d : devices) {
      NcclRank rank;
      rank.rank = whole(member(d, "rank"), 0);
      rank.device = whole(member(d, "device"), 0);
      rank.host = text(member(d, "hostname"));
      rank.name = text(member(d, "device_info"));
      if (rank.rank < 0 || rank.rank > (1 << 20) || rank.device < 0) continue;
      sweep_.devices.push_back(std::move(rank));
    }
  }

  double number(const json& value, size_t row, const char* what) const {
    if (!value.is_number() || value.get<double>() < 0)
      broken(row, std::string("has no ") + what + " that is a number");
    return value.get<double>();
  }

  void result(const json& r, size_t row) {
    const json& measured = member(r, "out_of_place");
    if (measured.is_null()) {
      ++sweep_.skipped;  // traces are replayed in place only
      return;
    }
    if (member(measured, "cpu_time").is_number())
      refuse_measurements(in_, "E330", "these are times of the processor (nccl-tests -C 1)",
                          "measure without -C");
    NcclResult out;
    out.bytes = whole(member(r, "size"), -1);
    if (out.bytes < 0) broken(row, "has no size");
    if (out.bytes == 0) {
      ++sweep_.skipped;
      return;
    }
    out.us = number(member(measured, "time"), row, "time");
    if (!(out.us > 0)) broken(row, "took no time");
    out.alg_gbs = number(member(measured, "alg_bw"), row, "alg_bw");
    out.bus_gbs = number(member(measured, "bus_bw"), row, "bus_bw");
    out.alg_tolerance = out.bus_tolerance = 0.5e-6;  // six places are written
    const json& errors = member(measured, "nwrong");
    if (errors.is_number() && errors.get<double>() > 0)
      wrong("results[" + std::to_string(row) + "]");
    const bool in_place_checked = member(member(r, "in_place"), "nwrong").is_number();
    sweep_.no_in_place = sweep_.no_in_place || (errors.is_number() && !in_place_checked);
    if (!errors.is_number()) sweep_.checked = false;
    const std::string op = text(member(r, "redop"));
    sweep_.reduces = sweep_.reduces || (!op.empty() && op != "none");
    const std::string root = text(member(r, "root"));  // padded with blanks
    const std::vector<std::string_view> words = split_words(root);
    sweep_.has_root =
        sweep_.has_root || (!words.empty() && integer_number(words[0]).value_or(-1) >= 0);
    sweep_.results.push_back(out);
  }

  const MeasurementInput& in_;
  NcclSweep sweep_;
};

}  // namespace

bool is_nccl_tests_json(std::string_view text) {
  // The head of what it writes: version, start_time, args, env, nccl_version.
  const std::string_view head = text.substr(0, 4096);
  return head.starts_with('{') && head.find("\"start_time\"") != std::string_view::npos &&
         head.find("\"args\"") != std::string_view::npos &&
         text.find("\"nccl_version\"") != std::string_view::npos;
}

TableText import_nccl_tests_json(const MeasurementInput& in) {
  return nccl_rows(in, NcclJson(in).read());
}

}  // namespace stepcast
