// SPDX-License-Identifier: Apache-2.0
// Internal to the importers of measurements: the importers themselves, and what they share: the
// file in hand, its lines, refusals that point at a place, and samples of one shape made into a
// row.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/import/import_measurements.h"
#include "sim/statistics.h"
#include "sim/text.h"

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
std::string base_name_of(const std::string& file);

// Names of number types as PyTorch, NCCL and the tables have them: "torch.bfloat16",
// "c10::BFloat16", "bf16", "Half".
std::optional<DType> foreign_dtype(std::string_view name);

// The text as JSON.  Throws InputError E333 at the place where the text is broken, cut off, or has
// a number that no double holds.
nlohmann::json parse_json(const MeasurementInput& in);

// The NVLink bandwidth of a table of collectives, and whether the switches reduced: files of other
// tools do not say.  As options state, else as the GPU's shipped table has them, with a line in the
// conditions.  False where neither says the bandwidth: such collectives would answer nothing.
bool take_link_conditions(const MeasurementInput& in, TableText& table);

// The links inside a node, as take_link_conditions: as stated, else those of the shipped table.
std::optional<InsideLink> measured_inside(const MeasurementInput& in, TableText& table);

// One of each tool: whether `text` is what it writes, and its rows.  Throw InputError: E330 nothing
// in it that tables have rows of, E333 broken, E334 it does not say what an option has to state,
// E335 results that the tool itself found wrong.
bool is_nccl_tests_text(std::string_view text);
bool is_nccl_tests_json(std::string_view text);
bool is_mamf_output(std::string_view text);
bool is_kineto_trace(std::string_view text);
TableText import_nccl_tests_text(const MeasurementInput& in);
TableText import_nccl_tests_json(const MeasurementInput& in);
TableText import_mamf(const MeasurementInput& in);
TableText import_kineto(const MeasurementInput& in);

}  // namespace stepcast
