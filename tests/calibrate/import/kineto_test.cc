// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <sstream>

#include "calibrate/import/import_measurements.h"
#include "sim/diagnostic.h"

namespace stepcast::import_kineto_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::string sample() {
  std::ifstream in(std::string(STEPCAST_TEST_DATA) + "/measurements/kineto_h100.json");
  std::ostringstream text;
  text << in.rdbuf();
  EXPECT_FALSE(text.str().empty());
  return text.str();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  EXPECT_NE(text.find(from), std::string::npos) << from;
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string problem(const std::string& text, const MeasurementOptions& options = {}) {
  try {
    import_measurements(text, "trace.json", options);
  } catch (const InputError& e) {
    return e.what();
  }
  return "taken";
}

const GemmRow* gemm(const TableText& t, GemmLayout layout) {
  for (const GemmRow& r : t.gemms)
    if (r.layout == layout && r.dtype == DType::bf16) return &r;
  return nullptr;
}

TEST(ImportKineto, ProductsTakeTheirLayoutFromTheStridesAndAllTheirKernels) {
  const TableText t = import_measurements(sample(), "trace.json", {});
  EXPECT_EQ(t.gpu, "h100-sxm");
  EXPECT_EQ(t.software, "CUDA 12.6, NCCL 2.21.5");
  const GemmRow* tn = gemm(t, GemmLayout::tn);
  ASSERT_NE(tn, nullptr);
  EXPECT_EQ(tn->m, 4096);
  EXPECT_EQ(tn->n, 8192);
  EXPECT_EQ(tn->k, 4096);
  // Three calls: 100 + 4, 110 + 5, 104 + 4.5; the second kernel is tied by its launch.
  EXPECT_EQ(tn->us, 108.5);
  EXPECT_NEAR(tn->spread, (111.75 - 106.25) / 108.5, 1e-5);
  const GemmRow* nn = gemm(t, GemmLayout::nn);
  ASSERT_NE(nn, nullptr);
  EXPECT_EQ(nn->us, 208);
  EXPECT_EQ(nn->n, 4096);
  EXPECT_EQ(nn->k, 8192);
  const GemmRow* nt = gemm(t, GemmLayout::nt);
  ASSERT_NE(nt, nullptr);
  EXPECT_EQ(nt->m, 8192);
  EXPECT_EQ(nt->us, 312);
  EXPECT_TRUE(t.sources[nt->source].derived);  // not added into fp32
  EXPECT_FALSE(t.sources[tn->source].derived);
}

TEST(ImportKineto, RowsAreOfATrainingStep) {
  const TableText t = import_measurements(sample(), "trace.json", {});
  ASSERT_FALSE(t.sources.empty());
  for (const TableSource& s : t.sources) EXPECT_EQ(s.kind, TimingKind::training) << s.key;
}

TEST(ImportKineto, TheKernelTellsTf32FromFp32) {
  const TableText t = import_measurements(sample(), "trace.json", {});
  int found = 0;
  for (const GemmRow& r : t.gemms) found += r.dtype == DType::tf32 && r.m == 1024 && r.n == 512;
  EXPECT_EQ(found, 1);
  const TableText plain =
      import_measurements(replaced(sample(), "_tf32f32_", "_f32f32_"), "trace.json", {});
  for (const GemmRow& r : plain.gemms) EXPECT_NE(r.dtype, DType::tf32);
}

TEST(ImportKineto, AttentionHasHeadsLengthsAndMask) {
  const TableText t = import_measurements(sample(), "trace.json", {});
  ASSERT_EQ(t.attentions.size(), 1u);
  const AttentionRow& r = t.attentions[0];
  EXPECT_TRUE(r.causal);
  EXPECT_FALSE(r.backward);
  EXPECT_EQ(r.heads, 32);
  EXPECT_EQ(r.kv_heads, 8);
  EXPECT_EQ(r.m, 2048);
  EXPECT_EQ(r.k, 128);
  EXPECT_EQ(r.batch, 2);
  EXPECT_EQ(r.us, 520);
}

TEST(ImportKineto, OfACollectiveTheFastestKernelCountsAndIsDerived) {
  std::vector<std::string> notes;
  const TableText t = import_measurements(sample(), "trace.json", {}, &notes);
  ASSERT_EQ(t.collectives.size(), 1u);
  const CollectiveRow& r = t.collectives[0];
  EXPECT_EQ(r.kind, WorkKind::all_reduce);
  EXPECT_EQ(r.ranks, 8);
  EXPECT_EQ(r.nodes, 1);
  EXPECT_EQ(r.bytes, 33554432);
  EXPECT_EQ(r.us, 280);
  EXPECT_EQ(t.nvlink_gbs, 450);  // without it no cluster would be like the table's
  EXPECT_TRUE(t.in_network_reduction);
  EXPECT_TRUE(t.sources[r.source].derived);
  EXPECT_THAT(notes, Contains(HasSubstr("3 collectives are not used")));
}

TEST(ImportKineto, GroupsOverNodesNeedTheirNetwork) {
  MeasurementOptions o;
  o.nic_gbs = 50;
  EXPECT_EQ(import_measurements(sample(), "trace.json", o).collectives.size(), 1u);
  o.network = NicDriver::roce;
  const TableText t = import_measurements(sample(), "trace.json", o);
  EXPECT_EQ(t.sources[t.collectives.at(0).source].wires.network, NicDriver::roce);
  ASSERT_EQ(t.collectives.size(), 2u);
  const CollectiveRow& r = t.collectives[1];
  EXPECT_EQ(r.kind, WorkKind::all_gather);
  EXPECT_EQ(r.nodes, 2);
  EXPECT_EQ(r.ranks_per_node, 8);
  EXPECT_EQ(r.nic_gbs, 50);
  EXPECT_EQ(r.bytes, 67108864);  // what is gathered
}

TEST(ImportKineto, WhatIsNotUsedIsCountedByKernel) {
  std::vector<std::string> notes;
  import_measurements(sample(), "trace.json", {}, &notes);
  ASSERT_FALSE(notes.empty());
  EXPECT_THAT(notes[0], HasSubstr("used 21 of 27 kernels"));
  EXPECT_THAT(notes, Contains(AllOf(HasSubstr("not used: 3 x void at::native::vectorized"),
                                    HasSubstr("0.022 ms"))));
}

TEST(ImportKineto, WithoutShapesThereAreNoRows) {
  std::string text = replaced(sample(), "\"Input Strides\"", "\"Strides\"");
  text = replaced(text, "\"Collective name\"", "\"Name\"");
  text = replaced(text, "\"Concrete Inputs\"", "\"Inputs\"");
  EXPECT_THAT(problem(text), HasSubstr("E330"));
  EXPECT_THAT(problem("{\"traceEvents\": []}"), AllOf(HasSubstr("E330"), HasSubstr("kernels")));
}

TEST(ImportKineto, BrokenTracesAreRefusedAtTheirPlace) {
  const std::string text = sample();
  EXPECT_THAT(problem(text.substr(0, text.size() / 2)), HasSubstr("E333"));
  EXPECT_THAT(problem("{\"traceEvents\": [\n{\"ph\": X}]}"),
              AllOf(HasSubstr("trace.json:2:"), HasSubstr("E333")));
  EXPECT_THAT(problem(replaced(text, "NVIDIA H100 80GB HBM3", "Fast One")), HasSubstr("E334"));
}

TEST(ImportKineto, OddEventsAreNoMatter) {
  // Shapes of other forms, scalars where lists are due, deep nests, huge numbers.
  const std::string events =
      "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"args\":{\"External id\":1,"
      "\"Input Dims\":7,\"Input type\":[[1]],\"Input Strides\":[[[[1]]]]}},"
      "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"args\":{\"External id\":"
      "18446744073709551615,\"Input Dims\":[[2,-3],[3,2]]}},"
      "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"dur\":-5,\"args\":{}},"
      "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"dur\":1e999,\"args\":[]},"
      "[1],\"x\",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"dur\":5}";
  EXPECT_THAT(problem("{\"traceEvents\": [" + events + "]}"),
              ::testing::AnyOf(HasSubstr("E330"), HasSubstr("E333")));
}

TEST(ImportKineto, CollectivesOverAnUnknownNvlinkAreLeftOutWithANote) {
  MeasurementOptions o;
  o.gpu = "l40s";
  std::vector<std::string> notes;
  const TableText t = import_measurements(
      replaced(sample(), "NVIDIA H100 80GB HBM3", "NVIDIA L40S"), "trace.json", o, &notes);
  EXPECT_FALSE(t.gemms.empty());
  EXPECT_TRUE(t.collectives.empty());
  EXPECT_TRUE(std::ranges::any_of(
      notes, [](const std::string& n) { return n.find("--nvlink") != std::string::npos; }));
  o.nvlink_gbs = 300;
  EXPECT_FALSE(import_measurements(replaced(sample(), "NVIDIA H100 80GB HBM3", "NVIDIA L40S"),
                                   "trace.json", o)
                   .collectives.empty());
}

}  // namespace
}  // namespace stepcast::import_kineto_test
