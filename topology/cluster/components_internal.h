// SPDX-License-Identifier: Apache-2.0
// Components and distances of an undirected graph that is given by its edges (Boost.Graph).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace stepcast {

using GraphEdges = std::vector<std::pair<uint32_t, uint32_t>>;

// Of each vertex, the lowest one that is connected with it.  REQUIRES: ends below `vertices`.
std::vector<uint32_t> component_roots(size_t vertices, const GraphEdges& edges);

// Of each vertex, its edges to the nearest of `sources`; -1: none is in reach.  REQUIRES: as above.
std::vector<int32_t> distances_from(std::span<const uint32_t> sources, size_t vertices,
                                    const GraphEdges& edges);

}  // namespace stepcast
