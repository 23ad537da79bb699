// SPDX-License-Identifier: Apache-2.0
#include "stepcast/preset_list.h"

#include <gtest/gtest.h>

#include <string>

#include "scenarios/document/files.h"
#include "sim/diagnostic.h"

namespace stepcast::preset_list_test {
namespace {

std::string cluster_summary(const std::string& intra) {
  Problems problems;
  const Value root =
      parse_yaml(problems, problems.add_source({"node.yaml",
                                                "node: {gpus: 4, gpu: h100-pcie, intra: " + intra +
                                                    ", nics: {count: 4, bw: 400Gb/s}}\n",
                                                Source::Kind::preset}));
  return preset_summary(PresetKind::cluster, root);
}

TEST(Presets, ClustersAreListedWithTheLinksOfTheirNodes) {
  EXPECT_EQ(cluster_summary("{kind: pcie, bw: 63GB/s}"),
            "node of 4 h100-pcie, PCIe 63GB/s, NICs 4 of 400Gb/s");
  EXPECT_EQ(cluster_summary("{kind: nvlink-mesh, bw: 150GB/s}"),
            "node of 4 h100-pcie, NVLink 150GB/s, NICs 4 of 400Gb/s");
  EXPECT_EQ(cluster_summary("{bw: 450GB/s}"),  // switches, unless it is said
            "node of 4 h100-pcie, NVLink 450GB/s, NICs 4 of 400Gb/s");
}

}  // namespace
}  // namespace stepcast::preset_list_test
