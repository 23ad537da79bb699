// SPDX-License-Identifier: Apache-2.0
// Steps as numbers for a page: what its script draws against each other.
#pragma once

#include <span>
#include <string>

#include "sim/results/step_ranking.h"
#include "sim/results/step_row.h"

namespace stepcast {

// The format; all numbers are little-endian base-128 varints (varints.h), `~` zigzag ones.
//
//   length of the header in bytes; the header: JSON {rows, counted, steps: [{axis, row}],
//     columns: [{name, kind, words}], by the names of step_columns(), and `others`
//     (other_settings()), `run`, the line that forecasts a row, `days` and `price_usd`; axes:
//     [{title, column}]}
//   for each column, for each row:
//     kind "text":    index into words
//     kind "whole":   0 if it is not known, else 1 + ~(value - the last one that is known)
//     kind "million": the same of the value in millionths, to the nearest
//
// `run_words`: how the file of the rows is read (run_line()).
std::string points_data(const StepPoints& points, std::span<const std::string> run_words);

}  // namespace stepcast
