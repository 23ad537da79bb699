// SPDX-License-Identifier: Apache-2.0
#include "calibrate/import/measurement_input.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "calibrate/import/device_names.h"
#include "calibrate/table/cost_table.h"
#include "sim/check.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

using nlohmann::json;

// Where the parser gives up, which not all of its exceptions say.
struct FailedPlace : nlohmann::json_sax<json> {
  size_t byte = 0;

  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    byte = position == 0 ? 0 : position - 1;
    return false;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(json::number_integer_t) override { return true; }
  bool number_unsigned(json::number_unsigned_t) override { return true; }
  bool number_float(json::number_float_t, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(std::string&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
};

[[noreturn]] void refuse_json(const MeasurementInput& in, const char* message) {
  FailedPlace failed;
  json::sax_parse(in.text, &failed);
  refuse_measurements(in, "E333", message, "", place_of(in.text, failed.byte));
}

}  // namespace

bool TextLines::next() {
  if (rest_.empty()) return false;
  if (!counted_) ++number;
  const size_t end = rest_.find_first_of("\r\n");
  complete = end != std::string_view::npos;
  line = rest_.substr(0, end);
  if (!complete) {
    rest_ = {};
    return true;
  }
  counted_ = rest_[end] == '\r';
  rest_.remove_prefix(end + 1);
  if (counted_ && rest_.starts_with('\n')) {
    rest_.remove_prefix(1);
    counted_ = false;
  }
  return true;
}

TextPlace place_of(std::string_view text, size_t byte) {
  byte = std::min(byte, text.size());
  const std::string_view before = text.substr(0, byte);
  const size_t newline = before.rfind('\n');
  const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  TextPlace place;
  place.line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1;
  place.column = static_cast<int>(byte - begin) + 1;
  // Whole files may be one line: no more of it than a terminal shows.
  constexpr size_t kShown = 200;
  if (byte - begin < kShown) {
    const std::string_view line = text.substr(begin);
    place.source_line = std::string(line.substr(0, std::min(line.find('\n'), kShown)));
  }
  return place;
}

void refuse_measurements(const MeasurementInput& in, std::string code, std::string message,
                         std::string help, const TextPlace& place) {
  Diagnostic d;
  d.code = std::move(code);
  d.message = std::move(message);
  d.file = in.file;
  d.line = place.line;
  d.column = place.column;
  d.source_line = place.source_line;
  d.help = std::move(help);
  throw InputError(d);
}

bool take_link_conditions(const MeasurementInput& in, TableText& table) {
  table.nvlink_gbs = in.options.nvlink_gbs;
  table.in_network_reduction = in.options.in_network_reduction.value_or(false);
  const auto inside = in.options.inside;
  const bool nvlink = !inside || inside->kind == InsideLink::Kind::nvswitch ||
                      inside->kind == InsideLink::Kind::nvlink_mesh;
  if (!nvlink) return true;
  const std::string_view shipped = shipped_table_text(table.gpu);
  if (shipped.empty()) return table.nvlink_gbs > 0;
  const TableText known = parse_table_text(shipped, std::string(table.gpu));
  if (table.nvlink_gbs == 0 && known.nvlink_gbs > 0) {
    table.nvlink_gbs = known.nvlink_gbs;
    table.conditions.push_back("NVLink bandwidth assumed: that of the shipped table");
  }
  if (!in.options.in_network_reduction && known.in_network_reduction) {
    table.in_network_reduction = true;
    table.conditions.push_back("reduction in the NVSwitches assumed: NCCL's default on this GPU");
  }
  return table.nvlink_gbs > 0;
}

std::optional<InsideLink> measured_inside(const MeasurementInput& in, TableText& table) {
  if (in.options.inside) return in.options.inside;
  const std::string_view shipped = shipped_table_text(table.gpu);
  if (shipped.empty()) return std::nullopt;
  for (const TableSource& s : parse_table_text(shipped, std::string(table.gpu)).sources) {
    if (!s.wires.inside) continue;
    table.conditions.push_back("links inside nodes assumed: " + text_of(*s.wires.inside) +
                               ", as in the shipped table");
    return s.wires.inside;
  }
  return std::nullopt;
}

std::string measured_gpu(const MeasurementInput& in, std::string_view device) {
  const std::string_view known = gpu_of_device(device);
  const std::string& stated = in.options.gpu;
  if (!known.empty() && !stated.empty() && known != stated)
    refuse_measurements(in, "E333",
                        "the file says that '" + std::string(device) + "' was measured, which is " +
                            std::string(known) + ", not " + stated,
                        "rows of one GPU are not those of another");
  if (!stated.empty()) return stated;
  if (!known.empty()) return std::string(known);
  refuse_measurements(in, "E334",
                      device.empty() ? std::string("the file does not say which GPU was measured")
                                     : "no preset is known for the GPU '" + std::string(device) +
                                           "' that was measured",
                      "state it: --gpu NAME; `stepcast presets` lists them");
}

std::string base_name_of(const std::string& file) {
  return file.substr(file.find_last_of('/') + 1);
}

std::optional<DType> foreign_dtype(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, DType>, 31> kNames{{
      {"bf16", DType::bf16},         {"bfloat16", DType::bf16},       {"BFloat16", DType::bf16},
      {"fp16", DType::fp16},         {"float16", DType::fp16},        {"half", DType::fp16},
      {"Half", DType::fp16},         {"fp32", DType::fp32},           {"float32", DType::fp32},
      {"float", DType::fp32},        {"Float", DType::fp32},          {"tf32", DType::tf32},
      {"fp8", DType::fp8},           {"float8_e4m3fn", DType::fp8},   {"float8_e5m2", DType::fp8},
      {"Float8_e4m3fn", DType::fp8}, {"Float8_e5m2", DType::fp8},     {"fp8_e4m3", DType::fp8},
      {"fp8_e5m2", DType::fp8},      {"mxfp8", DType::fp8},           {"int8", DType::int8},
      {"Char", DType::int8},         {"signed char", DType::int8},    {"uint8", DType::uint8},
      {"Byte", DType::uint8},        {"unsigned char", DType::uint8}, {"fp4", DType::fp4},
      {"mxfp4", DType::fp4},         {"nvfp4", DType::fp4},           {"f8e4m3fn", DType::fp8},
      {"f8e5m2", DType::fp8},
  }};
  for (const std::string_view library : {"torch.", "c10::"})
    if (name.starts_with(library)) name.remove_prefix(library.size());
  for (const auto& [known, type] : kNames)
    if (known == name) return type;
  return std::nullopt;
}

json parse_json(const MeasurementInput& in) {
  try {
    return json::parse(in.text);
  } catch (const json::out_of_range&) {
    refuse_json(in, "a number that is too large");
  } catch (const json::parse_error&) {
    refuse_json(in, "JSON that is broken or was cut off");
  }
}

}  // namespace stepcast
