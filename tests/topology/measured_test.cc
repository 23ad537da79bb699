// SPDX-License-Identifier: Apache-2.0
// The model against nccl-tests logs (tests/data/collectives, sources in the files).  Nothing in the
// model is fitted to these curves; the bounds say how good it is, and docs/communication.md has the
// table.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/topology/clusters.h"
#include "topology/collectives.h"

namespace stepcast {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

struct Point {
  int64_t bytes = 0;
  double seconds = 0;
};

std::vector<Point> read_points(const std::string& name) {
  std::ifstream file(std::string(STEPCAST_TEST_DATA) + "/collectives/" + name + ".csv");
  EXPECT_TRUE(file) << name;
  std::vector<Point> points;
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] < '0' || line[0] > '9') continue;
    Point p;
    char comma = 0;
    std::istringstream(line) >> p.bytes >> comma >> p.seconds;
    p.seconds *= 1e-6;
    points.push_back(p);
  }
  return points;
}

struct Sweep {
  const char* file;
  WorkKind kind;
  Cluster cluster;
};

Cluster p5(int64_t nodes) {
  Cluster c = test::dgx_h100(nodes);
  c.node.nics = 32;
  c.node.nic_bandwidth = {12.5e9};
  c.node.nic_latency = test::microseconds(15);
  c.fabric.kind = FabricKind::clos;
  return c;
}

Cluster dgx_b200(int64_t nodes) {
  Cluster c = test::dgx_h100(nodes);
  c.node.gpu.arch = GpuArch::blackwell;
  c.node.intra_bandwidth = {900e9};
  return c;
}

std::vector<Sweep> sweeps() {
  using enum WorkKind;
  return {{"a100_1n8_allreduce_superbench", all_reduce, test::dgx_a100(1)},
          {"a100_1n8_allgather_superbench", all_gather, test::dgx_a100(1)},
          {"a100_1n8_alltoall_superbench", all_to_all, test::dgx_a100(1)},
          {"a100_2n8_ar_deepops_dgx", all_reduce, test::dgx_a100(2)},
          {"a100_4n8_ar_deepops_slurm", all_reduce, test::dgx_a100(4)},
          {"h100_1n8_ar_dgxc", all_reduce, test::dgx_h100(1)},
          {"h100_2n8_ar_p5", all_reduce, p5(2)},
          {"b200_2n8_ar_lambda", all_reduce, dgx_b200(2)}};
}

double model_seconds(const Sweep& sweep, int64_t bytes) {
  GroupShape shape;
  shape.nodes = sweep.cluster.nodes;
  shape.ranks = shape.nodes * 8;
  shape.ranks_per_node = 8;
  shape.tier = shape.nodes == 1 ? -1 : 0;
  return to_seconds(collective_cost(sweep.cluster, sweep.kind, {bytes}, shape).time);
}

TEST(MeasuredCollectives, LargeMessagesAreClose) {
  for (const Sweep& sweep : sweeps()) {
    int points = 0;
    for (const Point& p : read_points(sweep.file)) {
      if (p.bytes < 256 * kMiB) continue;
      ++points;
      const double error = model_seconds(sweep, p.bytes) / p.seconds - 1;
      EXPECT_LT(std::fabs(error), p.bytes < 1024 * kMiB ? 0.24 : 0.12)
          << sweep.file << " " << p.bytes << " B: " << error;
    }
    EXPECT_GT(points, 2) << sweep.file;
  }
}

// 16 to 128 MiB: gradient buckets and tensor-parallel payloads.
TEST(MeasuredCollectives, MiddleMessagesAreOptimisticByHalfAtMost) {
  for (const Sweep& sweep : sweeps()) {
    for (const Point& p : read_points(sweep.file)) {
      if (p.bytes < 16 * kMiB || p.bytes >= 256 * kMiB) continue;
      const double ratio = model_seconds(sweep, p.bytes) / p.seconds;
      EXPECT_GT(ratio, 0.45) << sweep.file << " " << p.bytes << " B";
      EXPECT_LT(ratio, 1.3) << sweep.file << " " << p.bytes << " B";
    }
  }
}

// Prints the table of docs/communication.md; run with --gtest_also_run_disabled_tests.
TEST(MeasuredCollectives, DISABLED_Table) {
  for (const Sweep& sweep : sweeps()) {
    fmt::print("{:32}", sweep.file);
    for (const Point& p : read_points(sweep.file)) {
      if (p.bytes < 1024 || std::popcount(static_cast<uint64_t>(p.bytes)) != 1) continue;
      if (std::countr_zero(static_cast<uint64_t>(p.bytes)) % 2 != 0) continue;
      fmt::print(" {}K:{:.2f}", p.bytes / 1024, model_seconds(sweep, p.bytes) / p.seconds);
    }
    fmt::print("\n");
  }
}

}  // namespace
}  // namespace stepcast
