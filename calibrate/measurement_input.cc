// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measurement_input.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "calibrate/device_names.h"
#include "sim/check.h"
#include "sim/diagnostic.h"

namespace stepcast {

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

std::string file_stem(const std::string& file) {
  return file.substr(file.find_last_of('/') + 1);
}

std::vector<std::string_view> split_words(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    const size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    const size_t end = std::min(line.find_first_of(" \t"), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

std::optional<int64_t> integer_number(std::string_view word) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

std::optional<double> decimal_number(std::string_view word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
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

double rounded_figure(double value) {
  std::array<char, 40> text{};
  const auto written =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 5);
  double rounded = value;
  std::from_chars(text.data(), written.ptr, rounded);
  return rounded;
}

}  // namespace stepcast
