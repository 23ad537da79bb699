// SPDX-License-Identifier: Apache-2.0
// What the importers of measurements share: the file in hand, its lines, refusals that point at a
// place, and samples of one shape made into a row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/import_measurements.h"
#include "sim/statistics.h"

namespace stepcast {

struct MeasurementInput {
  std::string_view text;
  const std::string& file;
  const MeasurementOptions& options;
  std::vector<std::string>* notes = nullptr;

  void note(std::string line) const {
    if (notes != nullptr) notes->push_back(std::move(line));
  }
};

// Lines of a text; carriage returns end one too (progress that a terminal overwrites).
class TextLines {
 public:
  explicit TextLines(std::string_view text) : rest_(text) {}
  // False after the last one.
  bool next();

  std::string_view line;
  int number = 0;         // from 1; counts '\n' only, as editors do
  bool complete = false;  // a line end follows

 private:
  std::string_view rest_;
  bool counted_ = false;
};

struct TextPlace {
  int line = 0, column = 0;  // from 1; 0: none
  std::string source_line;
};
// The place of a byte of `text`.
TextPlace place_of(std::string_view text, size_t byte);

// Throws InputError with this one problem.
[[noreturn]] void refuse_measurements(const MeasurementInput& in, std::string code,
                                      std::string message, std::string help = "",
                                      const TextPlace& place = {});

// The preset: that of the device's name, else what the user states.  Throws E334 if neither says,
// E333 if they differ.
std::string measured_gpu(const MeasurementInput& in, std::string_view device);

// "run.json" of "logs/run.json": sources name the file, not where it lies.
std::string file_stem(const std::string& file);

std::vector<std::string_view> split_words(std::string_view line);
// Strict: the whole word, finite.
std::optional<int64_t> integer_number(std::string_view word);
std::optional<double> decimal_number(std::string_view word);

// Names of number types as PyTorch, NCCL and the tables have them: "torch.bfloat16",
// "c10::BFloat16", "bf16", "Half".
std::optional<DType> foreign_dtype(std::string_view name);

// With five significant digits, as tables write what was computed.
double rounded_figure(double value);

}  // namespace stepcast
