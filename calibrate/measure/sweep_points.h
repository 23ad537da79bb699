// SPDX-License-Identifier: Apache-2.0
// The points that a run measures: a plan's shapes and a grid beside them.  Needs no GPU.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "calibrate/plan/plan_text.h"
#include "calibrate/plan/sweep.h"

namespace stepcast::measure {

enum class Grid : uint8_t { none, small, full };

// The plan's rows but collectives (collectives/plan.h), with its weights and origins.  A copy
// between host and device becomes two points, one each way.
std::vector<SweepPoint> planned_points(const PlanText& plan);

// The points of a grid: products of usual shapes in all layouts and types, batched and grouped
// ones; attention, fused and in parts; memory-bound kernels and copies by size.  Their weights sum
// to 1, and each family has a fixed share of that.  None for Grid::none.
std::vector<SweepPoint> grid_points(Grid grid);

// Host times of launches, and interference: one point each, needed whatever is forecast.
std::vector<SweepPoint> single_points();

// The word of --families that a point belongs to: its family, `launch` for graph_launch too.
std::string_view family_word(std::string_view key);

}  // namespace stepcast::measure
