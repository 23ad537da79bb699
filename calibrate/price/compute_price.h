// SPDX-License-Identifier: Apache-2.0
// The price of one compute work: the cost table's, else the data sheet's, with what neither counts
// (operands on odd bytes, multiprocessors that communication holds).  compute_price.cc explains how
// they follow each other.
#pragma once

#include "calibrate/table/cost_table.h"
#include "sim/graph/price.h"
#include "sim/graph/work.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

// `table` may be null: the data sheet answers.  `parts` takes how the price is made, if given; what
// experts' ranks wait for each other is the difference of two prices and has no parts.
// `libraries`: OpGraph::libraries.  REQUIRES: !is_communication(work.kind).
Price compute_price(const Work& work, const Gpu& gpu, const CostTable* table,
                    PriceParts* parts = nullptr, int64_t libraries = 0);

// Attention of one query to a cache, which reads the cache and hardly computes: tables measure
// attention of many queries, so the data sheet prices it.
bool reads_cache(const Work& work);

// The work of the busiest rank, for which the others wait.  REQUIRES: WorkKind::expert_wait.
Work busiest_work(const Work& wait);

// ------------------------------------------------------------------------- parts of it, for tests

// What batched products of odd sizes cost beside those that cost tables measure.  cuBLAS loads 16
// bytes at a time, 8 values of 16 bits, where every row of the operands begins on such a boundary.
// Where the contiguous dimension of one is no multiple of 8 (a head of 150 values) it falls back to
// kernels of narrower loads (NVIDIA, Matrix Multiplication Background User's Guide, "Requirements
// to use Tensor Cores").  Single products mostly find a good kernel all the same; batched ones, as
// of unfused attention, were measured (data/alignment.csv).
//
// On how many bytes, 16 at most, all rows of the operands and the result of a product of 16-bit
// values begin.  Their contiguous dimensions: k and n forward, n and k, m and n of a weight
// gradient.
int64_t bytes_aligned(const Work& product);

// Time over that of an aligned product of as much work; 1 where the work is no batched product of
// 16 bits, is aligned, or was measured at this alignment on no GPU of this generation. `libraries`:
// the year of cuBLAS; 0: as young as can be.
double misalignment_ratio(const Work& work, GpuArch arch, int64_t libraries = 0);

}  // namespace stepcast
