// SPDX-License-Identifier: Apache-2.0
// Works, GPUs and clusters that the tests of this folder price.
#pragma once

#include <cstdint>

#include "sim/graph/work.h"
#include "topology/cluster/cluster.h"

namespace stepcast::test {

inline Work gemm(int64_t m, int64_t n, int64_t k, GemmLayout layout = GemmLayout::tn,
                 int64_t batch = 1) {
  Work w;
  w.kind = WorkKind::gemm;
  w.layout = layout;
  w.accumulate = layout == GemmLayout::nt;
  w.m = m;
  w.n = n;
  w.k = k;
  w.batch = batch;
  w.flops = {2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) *
             static_cast<double>(k)};
  return w;
}

inline Work attention(bool backward, bool causal, int64_t seq, int64_t heads, int64_t dim,
                      int64_t batch) {
  Work w;
  w.kind = backward ? WorkKind::attention_backward : WorkKind::attention_forward;
  w.causal = causal;
  w.m = w.n = seq;
  w.k = dim;
  w.heads = w.kv_heads = heads;
  w.batch = batch;
  w.flops = {4.0 * static_cast<double>(seq) * static_cast<double>(seq) *
             static_cast<double>(heads * dim * batch) * (causal ? 0.5 : 1) * (backward ? 2.5 : 1)};
  return w;
}

inline Work kernel(Kernel which, int64_t bytes) {
  Work w;
  w.kernel = which;
  w.bytes = {bytes};
  return w;
}

inline Work collective(WorkKind kind, Axis axis, int64_t bytes) {
  Work w;
  w.kind = kind;
  w.axis = axis;
  w.bytes = {bytes};
  return w;
}

// Nodes of 8 A100 with 8 NICs of 25 GB/s.
inline Cluster a100_cluster(int64_t nodes) {
  Cluster c;
  c.name = "test";
  c.nodes = nodes;
  Node& n = c.node;
  n.gpu.name = "a100-sxm-80g";
  n.gpu.arch = GpuArch::ampere;
  n.gpu.memory_bandwidth = {2039e9};
  n.gpu.peak[DType::bf16] = {312e12};
  n.gpu.peak[DType::fp32] = {19.5e12};
  n.intra_bandwidth = {300e9};
  n.intra_latency = Time{1'000'000};
  n.nic_bandwidth = {25e9};
  n.nic_latency = Time{2'000'000};
  c.fabric.hop_latency = Time{200'000};
  return c;
}

inline double us(Time t) {
  return to_seconds(t) * 1e6;
}

}  // namespace stepcast::test
