// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <sstream>

#include "calibrate/import/import_measurements.h"
#include "sim/diagnostic.h"

namespace stepcast::import_nccl_tests_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string sample(const std::string& name) {
  std::ifstream in(std::string(STEPCAST_TEST_DATA) + "/measurements/nccl_tests/" + name);
  std::ostringstream text;
  text << in.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

TableText import(const std::string& name, const MeasurementOptions& options = {}) {
  const std::string text = sample(name);
  EXPECT_EQ(recognise_measurements(text), "nccl-tests") << name;
  return import_measurements(text, name, options);
}

MeasurementOptions two_nodes(const std::string& gpu) {
  MeasurementOptions o;
  o.gpu = gpu;
  o.nodes = 2;
  o.nic_gbs = 25;
  o.network = NicDriver::verbs;
  o.one_process = false;
  return o;
}

MeasurementOptions one_node() {
  MeasurementOptions o;
  o.gpu = "h100-sxm";
  o.nodes = 1;
  o.one_process = false;
  return o;
}

// The problem that `text` has, as "file:line:column: CODE message".
std::string problem(const std::string& text, const MeasurementOptions& options = {},
                    const std::string& file = "log.txt") {
  try {
    import_measurements(text, file, options);
  } catch (const InputError& e) {
    return e.what() + ("\n" + e.diagnostics[0].help);
  }
  return "taken";
}

const CollectiveRow* row(const TableText& t, int64_t bytes) {
  for (const CollectiveRow& r : t.collectives)
    if (r.bytes == bytes) return &r;
  return nullptr;
}

double us(const TableText& t, int64_t bytes) {
  const CollectiveRow* r = row(t, bytes);
  return r == nullptr ? -1 : r->us;
}

// kind, ranks, nodes, ranks a node of the rows; they are the same in all of these.
std::string shape(const TableText& t) {
  std::set<std::string> all;
  for (const CollectiveRow& r : t.collectives)
    all.insert(std::string(name_of(r.kind)) + " " + std::to_string(r.ranks) + " " +
               std::to_string(r.nodes) + "x" + std::to_string(r.ranks_per_node));
  return all.size() == 1 ? *all.begin() : std::to_string(all.size()) + " shapes";
}

TEST(ImportNcclTests, CurrentLayoutTellsGpuRanksAndNodes) {
  const TableText t = import("h100_1n8_allreduce.txt");
  EXPECT_EQ(t.gpu, "h100-sxm");
  EXPECT_EQ(shape(t), "all_reduce 8 1x8");
  EXPECT_EQ(t.collectives.size(), 32u);
  EXPECT_EQ(us(t, 8), 13.67);  // out of place, not in place
  EXPECT_EQ(us(t, 17179869184), 62648);
  EXPECT_EQ(t.nvlink_gbs, 450);
  ASSERT_EQ(t.sources.size(), 1u);
  EXPECT_FALSE(t.sources[0].derived);
  EXPECT_THAT(t.sources[0].text, HasSubstr("h100_1n8_allreduce.txt"));
  EXPECT_EQ(text_of(t.sources[0].wires), "nvlink4");
  EXPECT_THAT(t.fits, IsEmpty());
}

TEST(ImportNcclTests, OldLayoutWithoutRootAndOperationIsReadAndTheFileNamesTheCollective) {
  std::vector<std::string> notes;
  const std::string name = "a100_1n8_alltoall_2021_layout.txt";
  const TableText t = import_measurements(sample(name), name, {}, &notes);
  EXPECT_EQ(t.gpu, "a100-sxm-40g");
  EXPECT_EQ(shape(t), "all_to_all 8 1x8");
  EXPECT_EQ(t.collectives.size(), 29u);  // 34 rows, 5 of them of 0 bytes
  EXPECT_EQ(us(t, 4294967296), 16860);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("from the name of the file: alltoall"),
                                 HasSubstr("5 rows of 0 bytes")));
  ASSERT_EQ(t.sources.size(), 1u);
  EXPECT_THAT(t.sources[0].text, HasSubstr("not checked"));
  EXPECT_TRUE(t.sources[0].wires.one_process) << "nGpus 8";
}

TEST(ImportNcclTests, WhatTheColumnsDoNotTellHasToBeStated) {
  const std::string text = sample("a100_1n8_alltoall_2021_layout.txt");
  EXPECT_THAT(problem(text), AllOf(HasSubstr("E334"), HasSubstr("all_gather, alltoall")));
  MeasurementOptions o;
  o.collective = "all_gather";
  EXPECT_EQ(shape(import_measurements(text, "log.txt", o)), "all_gather 8 1x8");
  o.collective = "all_reduce";  // the bandwidths say otherwise
  EXPECT_THAT(problem(text, o), AllOf(HasSubstr("E333"), HasSubstr("bandwidths")));
  o.collective = "bcast";
  EXPECT_THAT(problem(text, o), HasSubstr("E334"));
}

TEST(ImportNcclTests, RanksFollowFromTheBandwidthsIfNoDeviceIsListed) {
  const std::string name = "a100_2n8_allreduce_2021_no_header.txt";
  const TableText t = import(name, two_nodes("a100-sxm-40g"));
  EXPECT_EQ(shape(t), "all_reduce 16 2x8");
  EXPECT_EQ(t.collectives.size(), 30u);
  EXPECT_EQ(us(t, 1048576), 120.1);
  EXPECT_EQ(row(t, 8)->nic_gbs, 25);
  EXPECT_THAT(problem(sample(name)), AllOf(HasSubstr("E334"), HasSubstr("--nodes")));
  MeasurementOptions o = two_nodes("a100-sxm-40g");
  o.nic_gbs = 0;
  EXPECT_THAT(problem(sample(name), o), AllOf(HasSubstr("E334"), HasSubstr("--nic 400Gb/s")));
  o = two_nodes("");
  EXPECT_THAT(problem(sample(name), o), AllOf(HasSubstr("E334"), HasSubstr("--gpu")));
}

TEST(ImportNcclTests, WideWrongColumnAndTheLastDeviceLineAlone) {
  MeasurementOptions o;
  o.nic_gbs = 50;
  o.network = NicDriver::roce;
  o.one_process = false;  // one device line alone does not tell
  const TableText t = import("gb200_32n4_allreduce_wide_wrong_column.txt", o);
  EXPECT_EQ(t.gpu, "gb200");
  EXPECT_EQ(shape(t), "all_reduce 128 32x4");
  EXPECT_EQ(t.collectives.size(), 33u);
  EXPECT_EQ(us(t, 1073741824), 7487.21);  // the dip is real, and stays
  EXPECT_EQ(t.software, "NCCL 2.29.2+cuda13.1");
}

TEST(ImportNcclTests, GapsInTheListOfRanks) {
  MeasurementOptions o;
  o.nic_gbs = 25;
  o.network = NicDriver::roce;
  const TableText t = import("a100_2n8_allreduce_v2.17.9_truncated.txt", o);
  EXPECT_EQ(shape(t), "all_reduce 16 2x8");
  EXPECT_EQ(t.collectives.size(), 4u);
  EXPECT_EQ(us(t, 8589934592), 84948.7);
  EXPECT_EQ(t.gpu, "a100-sxm-40g");
  EXPECT_EQ(t.software, "NCCL 2.29.3+cuda13.1");
}

TEST(ImportNcclTests, LabelsOfSrun) {
  const TableText t = import("a100_2n8_allreduce_srun_label_prefix.txt", two_nodes("a100-sxm-80g"));
  EXPECT_EQ(shape(t), "all_reduce 16 2x8");
  EXPECT_EQ(t.collectives.size(), 29u);
  EXPECT_EQ(us(t, 8), 164.3);
}

TEST(ImportNcclTests, TagsOfMpirun) {
  MeasurementOptions o = one_node();
  const TableText t = import("h100_1n8_allreduce_mpirun_tag_prefix.txt", o);
  EXPECT_EQ(shape(t), "all_reduce 8 1x8");
  EXPECT_EQ(t.collectives.size(), 32u);
  EXPECT_EQ(us(t, 4194304), 55.44);
}

TEST(ImportNcclTests, NoiseOfLaunchersGraphsAndOtherSizes) {
  const TableText t = import("h100_1n8_allreduce_pmix_noise_graph1.txt");
  EXPECT_EQ(shape(t), "all_reduce 8 1x8");
  EXPECT_EQ(t.collectives.size(), 6u);
  EXPECT_EQ(us(t, 22020096), 147.7);
  ASSERT_EQ(t.sources.size(), 1u);
  EXPECT_THAT(t.sources[0].text, HasSubstr("CUDA graphs"));
}

TEST(ImportNcclTests, AllToAllIsKnownByItsUncheckedInPlaceResults) {
  MeasurementOptions o;
  o.nic_gbs = 50;
  o.network = NicDriver::roce;
  const std::string text = sample("gb300_32n4_alltoall.txt");
  const TableText t = import_measurements(text, "log.txt", o);  // the name tells nothing
  EXPECT_EQ(t.gpu, "gb300");
  EXPECT_EQ(shape(t), "all_to_all 128 32x4");
  EXPECT_EQ(t.collectives.size(), 16u);
  EXPECT_EQ(us(t, 524288), 580.6);
}

TEST(ImportNcclTests, JsonSaysTheSameAsText) {
  const TableText json = import("h100_1n8_allreduce.json");
  const TableText text = import("h100_1n8_allreduce.txt");
  EXPECT_EQ(json.gpu, text.gpu);
  EXPECT_EQ(shape(json), shape(text));
  EXPECT_EQ(json.software, "NCCL 2.29.3");
  EXPECT_EQ(json.collectives.size(), 15u);
  for (const CollectiveRow& r : json.collectives) EXPECT_EQ(r.us, us(text, r.bytes)) << r.bytes;
}

TEST(ImportNcclTests, JsonListsOneDeviceAProcess) {
  std::string text = sample("h100_1n8_allreduce.json");
  const size_t first = text.find("{\"rank\":0");
  const size_t last = text.find("]},\"results\"");
  const size_t second = text.find(",{\"rank\":1");
  ASSERT_NE(second, std::string::npos);
  text.erase(second, last - second);
  ASSERT_LT(first, second);
  text.replace(text.find("\"ngpus\":1"), 9, "\"ngpus\":8");
  EXPECT_EQ(shape(import_measurements(text, "log.json", {})), "all_reduce 8 1x8");
}

TEST(ImportNcclTests, BrokenJsonIsRefusedAtItsPlace) {
  const std::string text = sample("h100_1n8_allreduce.json");
  EXPECT_THAT(problem(text.substr(0, text.size() / 2)), HasSubstr("E333"));
  std::string wrong = text;
  wrong.replace(wrong.find("\"nwrong\":0.0"), 12, "\"nwrong\":3.0");
  EXPECT_THAT(problem(wrong), HasSubstr("E335"));
  std::string zero = text;
  const size_t at = zero.find("\"time\":");
  zero.replace(at, zero.find(',', at) - at, "\"time\":\"nan\"");
  EXPECT_THAT(problem(zero), AllOf(HasSubstr("E333"), HasSubstr("results[0]")));
}

std::string rows(const std::string& first, const std::string& second = "") {
  return "#       size         count      type   redop    root     time   algbw   busbw #wrong     "
         "time   algbw   busbw #wrong\n"
         "    67108864      16777216     float     sum      -1    324.7  206.67  361.67      0    "
         "324.7  206.67  361.68      0\n" +
         first + second;
}

TEST(ImportNcclTests, SeveralTimesOfOneSizeGiveTheirMedianAndSpread) {
  const std::string a =
      "    67108864      16777216     float     sum      -1    300.0  223.70  391.47      0    "
      "324.7  206.67  361.68      0\n";
  const std::string b =
      "    67108864      16777216     float     sum      -1    330.0  203.36  355.88      0    "
      "324.7  206.67  361.68      0\n";
  const TableText t = import_measurements(rows(a, b), "log.txt", one_node());
  ASSERT_EQ(t.collectives.size(), 1u);
  EXPECT_EQ(t.collectives[0].us, 324.7);
  EXPECT_NEAR(t.collectives[0].spread, (327.35 - 312.35) / 324.7, 1e-5);
}

TEST(ImportNcclTests, SeveralRunsInOneFile) {
  const std::string text =
      "# Collective test starting: all_reduce_perf\n" + rows("") +
      "# Collective test concluded: all_reduce_perf\n"
      "# Collective test starting: all_gather_perf\n"
      "#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
      "   67108864  2097152  float  none  -1  200.0  335.54  293.60  0  200.0  335.54  293.60  0\n"
      "# Collective test concluded: all_gather_perf\n";
  const TableText t = import_measurements(text, "log.txt", one_node());
  ASSERT_EQ(t.collectives.size(), 2u);
  EXPECT_EQ(t.collectives[0].kind, WorkKind::all_reduce);
  EXPECT_EQ(t.collectives[1].kind, WorkKind::all_gather);
  EXPECT_EQ(t.collectives[1].us, 200);
}

TEST(ImportNcclTests, ColumnsOfEachIterationAndTimestamps) {
  const std::string text =
      "# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% "
      "time algbw busbw #wrong i_min i_max i_p99 i_cv% timestamp\n"
      " 67108864 16777216 float sum -1 324.7 206.67 361.67 0 320 330 329 1.2 "
      "324.9 206.67 361.68 0 320 330 329 1.2 2026-01-05 10:00:01\n";
  const TableText t = import_measurements(text, "log.txt", one_node());
  ASSERT_EQ(t.collectives.size(), 1u);
  EXPECT_EQ(t.collectives[0].us, 324.7);
  EXPECT_EQ(t.collectives[0].ranks, 8);
}

TEST(ImportNcclTests, WrongResultsAreRefusedWithTheirLine) {
  const std::string bad =
      "   134217728      33554432     float     sum      -1    586.4  228.88  400.53     12    "
      "586.0  229.05  400.84      0\n";
  EXPECT_THAT(problem(rows(bad), one_node()), AllOf(HasSubstr("log.txt:3:"), HasSubstr("E335")));
  EXPECT_THAT(problem(rows("# Out of bounds values : 3 FAILED\n"), one_node()), HasSubstr("E335"));
}

TEST(ImportNcclTests, CutAndBrokenRowsAreRefusedWithTheirPlace) {
  EXPECT_THAT(problem(rows("   134217728      33554432     float     sum      -1    586.4  228."),
                      one_node()),
              AllOf(HasSubstr("log.txt:3:"), HasSubstr("E333"), HasSubstr("cut off")));
  const std::string zero =
      "   134217728      33554432     float     sum      -1      0.0    0.00    0.00      0    "
      "586.0  229.05  400.84      0\n";
  EXPECT_THAT(problem(rows(zero), one_node()), HasSubstr("took no time"));
  const std::string text =
      "   134217728      33554432     float     sum      -1    586.4     abc  400.53      0    "
      "586.0  229.05  400.84      0\n";
  EXPECT_THAT(problem(rows(text), one_node()), AllOf(HasSubstr("E333"), HasSubstr("'abc'")));
}

TEST(ImportNcclTests, WhatTheFileSaysIsNotOverruled) {
  const std::string text = sample("h100_1n8_allreduce.txt");  // 8 x H100 on one host
  MeasurementOptions o;
  o.gpu = "b200-sxm";
  EXPECT_THAT(problem(text, o), AllOf(HasSubstr("E333"), HasSubstr("h100-sxm, not b200-sxm")));
  o.gpu = "h100-sxm";
  EXPECT_EQ(shape(import_measurements(text, "log.txt", o)), "all_reduce 8 1x8");
  o.nodes = 2;
  o.nic_gbs = 50;
  EXPECT_THAT(problem(text, o), AllOf(HasSubstr("E333"), HasSubstr("hosts of 8 ranks"),
                                      HasSubstr("nodes of 4 are stated")));
  o.nodes = 3;
  EXPECT_THAT(problem(text, o),
              AllOf(HasSubstr("E333"), HasSubstr("8 ranks do not divide among 3 nodes")));
  o.nodes = 4;
  o.ranks_per_node = 4;
  EXPECT_THAT(problem(text, o), AllOf(HasSubstr("E333"), HasSubstr("16 ranks that are stated")));
  o.nodes = 0;
  o.ranks_per_node = 3;
  EXPECT_THAT(problem(text, o), AllOf(HasSubstr("E333"), HasSubstr("multiple of 3 a node")));
  o.ranks_per_node = 0;
  o.ranks = 4;
  EXPECT_THAT(problem(text, o),
              AllOf(HasSubstr("E333"), HasSubstr("4 ranks are stated, and the file lists 8")));
}

TEST(ImportNcclTests, OptionsThatContradictEachOtherAreRefused) {
  MeasurementOptions o = two_nodes("a100-sxm-40g");
  o.ranks_per_node = 8;
  o.ranks = 8;
  EXPECT_THAT(problem(sample("a100_2n8_allreduce_2021_no_header.txt"), o),
              AllOf(HasSubstr("E333"), HasSubstr("--ranks 8")));
}

TEST(ImportNcclTests, HostsThatNvlinkJoinsAreStatedAsNodes) {
  const std::string text = sample("gb300_32n4_alltoall.txt");
  MeasurementOptions o;
  o.nic_gbs = 50;
  o.network = NicDriver::roce;
  std::vector<std::string> notes;
  import_measurements(text, "log.txt", o, &notes);
  EXPECT_THAT(notes, ::testing::Contains(AllOf(HasSubstr("each host is taken as a node, with 4"),
                                               HasSubstr("--ranks-per-node"))));
  o.ranks_per_node = 64;
  notes.clear();
  const TableText t = import_measurements(text, "log.txt", o, &notes);
  EXPECT_EQ(shape(t), "all_to_all 128 2x64");
  EXPECT_THAT(notes, ::testing::Not(::testing::Contains(HasSubstr("is taken as a node"))));
  notes.clear();
  o = {};
  o.nic_gbs = 25;
  o.network = NicDriver::roce;
  import_measurements(sample("a100_2n8_allreduce_v2.17.9_truncated.txt"), "log.txt", o, &notes);
  EXPECT_THAT(notes, IsEmpty());  // hosts of 8 are whole nodes
}

// Without its program's name the log's columns tell the collective.
std::string listed(int ranks) {
  std::string text;
  for (int i = 0; i < ranks; ++i)
    text += "#  Rank  " + std::to_string(i) + " Group  0 Pid " + std::to_string(100 + i) +
            " on    host1 device  " + std::to_string(i) + " [0x1a] NVIDIA H100 80GB HBM3\n";
  return text + rows("");
}

std::string listed_on_two_hosts() {
  std::string text;
  for (int i = 0; i < 16; ++i)
    text += "#  Rank  " + std::to_string(i) + " Group  0 Pid " + std::to_string(100 + i) +
            " on host" + std::to_string(i / 8) + " device  " + std::to_string(i % 8) +
            " [0x1a] NVIDIA H100 80GB HBM3\n";
  return text;
}

std::string rows_of_16() {
  return "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
         " 67108864 16777216 float sum -1 601.5 111.57 209.19 0 601.5 111.57 209.19 0\n";
}

TEST(ImportNcclTests, RanksThatTheBandwidthsAreNotOfAreSaid) {
  EXPECT_EQ(shape(import_measurements(listed(8), "log.txt", {})), "all_reduce 8 1x8");
  EXPECT_THAT(problem(listed(7)),
              AllOf(HasSubstr("E333"), HasSubstr("not those of the 7 ranks that the file lists"),
                    HasSubstr("all_reduce on 8")));
  MeasurementOptions o;
  o.ranks = 16;
  EXPECT_THAT(problem(listed(8), o),
              AllOf(HasSubstr("E333"), HasSubstr("not those of the 16 ranks that are stated")));
  // A list that was cut may be completed.
  o.ranks = 8;
  o.nodes = 1;
  std::vector<std::string> notes;
  EXPECT_EQ(shape(import_measurements(listed(7), "log.txt", o, &notes)), "all_reduce 8 1x8");
  EXPECT_THAT(notes, ElementsAre(HasSubstr("8 ranks are stated, the file lists 7")));
}

TEST(ImportNcclTests, EachKindOfRunHasItsSource) {
  const std::string graph =
      "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 1 iters: 20 agg "
      "iters: 1 validation: 1 graph: 2\n";
  const std::string meets =
      "    67108864      16777216     float     sum      -1    300.0  223.70  391.47      0    "
      "324.7  206.67  361.68      0\n";
  const std::string other =
      "   134217728      33554432     float     sum      -1    586.4  228.88  400.53      0    "
      "586.0  229.05  400.84      0\n";
  std::vector<std::string> notes;
  const TableText t =
      import_measurements(rows("") + graph + meets + other, "log.txt", one_node(), &notes);
  ASSERT_EQ(t.collectives.size(), 2u);
  EXPECT_EQ(us(t, 67108864), 324.7);  // not a mean of both kinds
  EXPECT_EQ(us(t, 134217728), 586.4);
  ASSERT_EQ(t.sources.size(), 2u);
  EXPECT_THAT(t.sources[row(t, 67108864)->source].text, ::testing::Not(HasSubstr("graphs")));
  EXPECT_THAT(t.sources[row(t, 134217728)->source].text, HasSubstr("CUDA graphs"));
  EXPECT_NE(t.sources[0].key, t.sources[1].key);
  EXPECT_THAT(t.conditions, ::testing::Not(::testing::Contains(HasSubstr("graphs"))));
  EXPECT_THAT(notes,
              ElementsAre(AllOf(HasSubstr("1 row of another kind"), HasSubstr("CUDA graphs"))));
}

TEST(ImportNcclTests, TimesThatNoTableHasAreRefused) {
  const std::string fast =
      "   134217728      33554432     float     sum      -1    1e-9    0.00    0.00      0    "
      "586.0  229.05  400.84      0\n";
  EXPECT_THAT(problem(rows(fast), one_node()), AllOf(HasSubstr("E333"), HasSubstr("range")));
}

TEST(ImportNcclTests, ForeignFilesAreRefused) {
  EXPECT_THAT(problem("hello\n"), HasSubstr("E330"));
  EXPECT_THAT(problem(""), HasSubstr("E330"));
  EXPECT_THAT(problem("\x1f\x8b\x08"), AllOf(HasSubstr("E330"), HasSubstr("gunzip")));
  MeasurementOptions o;
  o.kind = "nccl-tests";
  EXPECT_THAT(problem("hello\n", o), AllOf(HasSubstr("E330"), HasSubstr("nccl-tests")));
  const std::string none =
      "# size count type redop root time algbw busbw #wrong time algbw busbw\n";
  EXPECT_THAT(problem(none), HasSubstr("E330"));
}

TEST(ImportNcclTests, TimesOfTheProcessorAreRefused) {
  EXPECT_THAT(problem("# size count type redop root cputime algbw busbw #wrong\n"),
              AllOf(HasSubstr("E330"), HasSubstr("processor")));
}

TEST(ImportNcclTests, CollectivesWithoutRowsAreCounted) {
  std::vector<std::string> notes;
  const std::string text =
      "# Collective test starting: sendrecv_perf\n"
      "# size count type redop root time algbw busbw #wrong time algbw busbw "
      "#wrong\n"
      " 67108864 16777216 float sum -1 324.7 206.67 206.67 0 324.9 206.67 "
      "206.67 N/A\n# Collective test concluded: sendrecv_perf\n"
      "# Collective test starting: all_reduce_perf\n" +
      rows("");
  const TableText t = import_measurements(text, "log.txt", one_node(), &notes);
  EXPECT_EQ(t.collectives.size(), 1u);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("1 rows of sendrecv are not used")));
}

TEST(ImportNcclTests, WiresThatTheFileDoesNotTellHaveToBeStated) {
  const std::string text = sample("a100_2n8_allreduce_2021_no_header.txt");
  MeasurementOptions o = two_nodes("a100-sxm-40g");
  o.network.reset();
  EXPECT_THAT(problem(text, o), AllOf(HasSubstr("E334"), HasSubstr("--network NAME"),
                                      HasSubstr("verbs, roce, gib, efa")));
  o = two_nodes("a100-sxm-40g");
  o.one_process.reset();
  EXPECT_THAT(problem(text, o), AllOf(HasSubstr("E334"), HasSubstr("--processes each")));
  o.one_process = true;
  o.sharp = true;
  o.inside = InsideLink{InsideLink::Kind::nvlink_mesh, 3};
  const TableText t = import_measurements(text, "log.txt", o);
  EXPECT_EQ(text_of(t.sources.at(0).wires), "nvlink3-mesh verbs sharp one-process");
  EXPECT_THAT(problem(sample("h100_1n8_allreduce.txt"), o),
              AllOf(HasSubstr("E333")));  // nGpus 1, and hosts of 8
}

// NCCL's own lines, where NCCL_DEBUG was set.
TEST(ImportNcclTests, NcclsLinesTellTheWires) {
  const auto with = [](const std::string& said) {
    return listed_on_two_hosts() + said + rows_of_16();
  };
  MeasurementOptions o;
  o.nic_gbs = 50;
  const auto wires = [&](const std::string& said) {
    return text_of(import_measurements(with(said), "log.txt", o).sources.at(0).wires);
  };
  const std::string ib = "host1:9:9 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB\n";
  const std::string roce = "host1:9:9 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE\n";
  EXPECT_EQ(wires(ib), "nvlink4 verbs");
  EXPECT_EQ(wires(roce), "nvlink4 roce");
  EXPECT_EQ(wires("host1:9:9 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa\n"),
            "nvlink4 efa");
  EXPECT_EQ(wires(ib + "host1:9:9 [0] NCCL INFO NCCL_COLLNET_ENABLE set by environment to 1.\n"),
            "nvlink4 verbs sharp");
  EXPECT_TRUE(import_measurements(with(ib), "log.txt", o).in_network_reduction);
  EXPECT_FALSE(import_measurements(
                   with(ib + "host1:9:9 [0] NCCL INFO NCCL_NVLS_ENABLE set by environment to 0.\n"),
                   "log.txt", o)
                   .in_network_reduction);
  EXPECT_THAT(problem(with("host1:9:9 [0] NCCL INFO Using network Socket\n"), o),
              AllOf(HasSubstr("E334"), HasSubstr("TCP sockets")));
  o.network = NicDriver::efa;
  EXPECT_THAT(problem(with(roce), o), AllOf(HasSubstr("E333"), HasSubstr("roce drove the NICs")));
}

TEST(ImportNcclTests, TimesOfOneSideAlone) {
  const std::string heading = "# size count type redop root time algbw busbw #wrong\n";
  const TableText t =
      import_measurements(heading +
                              "67108864 16777216 float sum -1 324.7 206.67 361.67 0\n"
                              "134217728 33554432 float sum -1 586.4 228.88 400.53 0\n",
                          "log.txt", one_node());
  EXPECT_EQ(shape(t), "all_reduce 8 1x8");
  EXPECT_EQ(us(t, 134217728), 586.4);
  // Without the column of errors, and without a heading.
  EXPECT_EQ(us(import_measurements("# size count type redop root time algbw busbw\n"
                                   "67108864 16777216 float sum -1 324.7 206.67 361.67\n",
                                   "log.txt", one_node()),
               67108864),
            324.7);
  EXPECT_EQ(us(import_measurements("67108864 16777216 float sum -1 324.7 206.67 361.67 0\n",
                                   "log.txt", one_node()),
               67108864),
            324.7);
  // A row that lacks what the heading has was cut.
  EXPECT_THAT(problem(rows("134217728 33554432 float sum -1 586.4 228.88 400.53 0\n"), one_node()),
              AllOf(HasSubstr("log.txt:3:"), HasSubstr("E333")));
}

TEST(ImportNcclTests, WhatStandsOutIsNotedWithItsLine) {
  const auto notes_of = [](const std::string& text) {
    std::vector<std::string> notes;
    import_measurements(text, "log.txt", one_node(), &notes);
    return notes;
  };
  std::vector<std::string> notes;
  import_measurements(sample("h100_1n8_allreduce.txt"), "log.txt", {}, &notes);
  EXPECT_THAT(notes,
              ElementsAre(AllOf(HasSubstr("line 18: 68.14 us for 32 bytes"),
                                HasSubstr("13 and 14.92"), HasSubstr("in place it took 13.52"))));
  const std::string next =
      "   134217728      33554432     float     sum      -1    586.4  228.88  400.53      0    "
      "586.0  229.05  400.84      0\n";
  EXPECT_THAT(notes_of(rows(next)), IsEmpty());
  EXPECT_THAT(notes_of(rows(next, "   2684354[1,3]<stdout>:   56 67108864 float sum\n")),
              ElementsAre(HasSubstr("line 4: begins as a row and cannot be one: torn")));
  EXPECT_THAT(notes_of(rows(next, rows("").substr(rows("").find('\n') + 1))),
              ElementsAre(HasSubstr("line 4: 67108864 bytes after 134217728 without a heading")));
  const std::string heading = "0: # size count type redop root time algbw busbw #wrong\n";
  EXPECT_THAT(notes_of(heading + "0: 67108864 16777216 float sum -1 324.7 206.67 361.67 0\n"
                                 "1: 67108864 16777216 float sum -1 324.9 206.67 361.67 0\n"),
              ElementsAre(HasSubstr("line 3: a row of process 1 among those of 0")));
}

TEST(ImportNcclTests, TheNvlinkHasToBeKnown) {
  const std::string text = sample("a100_2n8_allreduce_2021_no_header.txt");
  MeasurementOptions o = two_nodes("a40");
  const std::string refused = problem(text, o);
  EXPECT_THAT(refused, HasSubstr("E334"));
  EXPECT_THAT(refused, HasSubstr("--nvlink RATE"));
  o.nvlink_gbs = 300;
  EXPECT_EQ(problem(text, o), "taken");
}

}  // namespace
}  // namespace stepcast::import_nccl_tests_test
