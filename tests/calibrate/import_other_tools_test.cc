// SPDX-License-Identifier: Apache-2.0
// mamf-finder, SimuMax and calculon.
#include <fstream>
#include <sstream>

#include "calibrate/import_measurements.h"
#include "calibrate/write_table.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string sample(const std::string& name) {
  std::ifstream in(std::string(STEPCAST_TEST_DATA) + "/measurements/" + name);
  std::ostringstream text;
  text << in.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

MeasurementOptions gpu(const std::string& name) {
  MeasurementOptions o;
  o.gpu = name;
  return o;
}

std::string problem(const std::string& text, const MeasurementOptions& options) {
  try {
    import_measurements(text, "file", options);
  } catch (const InputError& e) {
    return e.what();
  }
  return "taken";
}

const GemmRow* gemm(const TableText& t, GemmLayout layout, int64_t m, int64_t n, int64_t k,
                    int64_t batch = 1) {
  for (const GemmRow& r : t.gemms)
    if (r.layout == layout && r.m == m && r.n == n && r.k == k && r.batch == batch) return &r;
  return nullptr;
}

double us(const GemmRow* row) {
  return row == nullptr ? -1 : row->us;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

TEST(ImportMamf, ShapesOfTheSearchAreRowsOfTheirMedianRate) {
  const std::string text = sample("mamf_v2.txt");
  EXPECT_EQ(recognise_measurements(text), "mamf");
  const TableText t = import_measurements(text, "mamf_v2.txt", {});
  EXPECT_EQ(t.gpu, "h100-sxm");
  EXPECT_EQ(t.software, "PyTorch 2.7.0+cu126");
  ASSERT_EQ(t.gemms.size(), 2u);
  // 2 m n k / rate
  EXPECT_NEAR(us(gemm(t, GemmLayout::tn, 2048, 2048, 13312)), 2.0 * 2048 * 2048 * 13312 / 791.0e6,
              0.005);
  EXPECT_NEAR(us(gemm(t, GemmLayout::tn, 1024, 2048, 13312)), 2.0 * 1024 * 2048 * 13312 / 701.0e6,
              0.005);
  EXPECT_EQ(t.gemms[0].dtype, DType::bf16);
  ASSERT_EQ(t.sources.size(), 1u);
  EXPECT_THAT(t.sources[0].text, HasSubstr("best shapes"));
  EXPECT_FALSE(t.sources[0].derived);
}

TEST(ImportMamf, TextsAboutTheToolAreNotItsOutput) {
  EXPECT_EQ(recognise_measurements("# Benchmarks\nRun mamf-finder.py; it prints MxNxK.\n"), "");
  EXPECT_EQ(recognise_measurements("shapes (MxNxK) of mamf-finder @ night\n"), "");
  // A run that was stopped is its output, though without rates.
  EXPECT_EQ(recognise_measurements("** Command line:\npython ./mamf-finder.py --n 2048\n"), "mamf");
}

TEST(ImportMamf, SustainedRatesAreMeasuredAndBurstsAreNot) {
  MeasurementOptions o = gpu("h200-sxm");
  EXPECT_THAT(problem(sample("mamf_v4.txt"), o), HasSubstr("E334"));  // no number type
  o.dtype = "bf16";
  const TableText t = import_measurements(sample("mamf_v4.txt"), "f", o);
  ASSERT_EQ(t.gemms.size(), 2u);
  // The burst of 842 TFLOP/s of this shape is not used: its median over all iterations is known.
  EXPECT_NEAR(us(gemm(t, GemmLayout::tn, 3072, 2816, 20480)), 2.0 * 3072 * 2816 * 20480 / 828.6e6,
              0.005);
  EXPECT_NEAR(us(gemm(t, GemmLayout::tn, 3072, 2816, 8192)), 2.0 * 3072 * 2816 * 8192 / 722e6,
              0.005);
}

TEST(ImportMamf, ARateOfTheFastestIterationAloneIsDerived) {
  const std::string text =
      "** Dtype: torch.float16\nThe best outcome was 271.2TFLOPS @ 1024x10240x5120 (MxNxK) (tried "
      "79 shapes)\n";
  const TableText t = import_measurements(text, "old.txt", gpu("a100-sxm-80g"));
  ASSERT_EQ(t.gemms.size(), 1u);
  EXPECT_EQ(t.gemms[0].dtype, DType::fp16);
  ASSERT_EQ(t.sources.size(), 1u);
  EXPECT_TRUE(t.sources[0].derived);
  EXPECT_EQ(t.gemms[0].source, 0);
}

TEST(ImportMamf, BrokenRatesAreRefusedWithTheirPlace) {
  const std::string text = sample("mamf_v2.txt");
  EXPECT_THAT(problem(replaced(text, "median: 791.0", "median: nan"), {}),
              AllOf(HasSubstr("file:29:"), HasSubstr("E333")));
  EXPECT_THAT(
      problem(replaced(text, "median: 791.0 TFLOPS @ 2048x2048", "median: 791.0 TFLOPS @ 0x2048"),
              {}),
      HasSubstr("E333"));
  EXPECT_THAT(problem(text.substr(0, text.find("     1 |")), {}), HasSubstr("E330"));
  EXPECT_THAT(problem(replaced(text, "NVIDIA H100 80GB HBM3", "Fast One"), {}),
              AllOf(HasSubstr("E334"), HasSubstr("Fast One")));
}

TEST(ImportSimumax, EfficienciesAreTimes) {
  const std::string text = sample("simumax_a100_pcie.json");
  EXPECT_EQ(recognise_measurements(text), "simumax");
  const TableText t = import_measurements(text, "a100_pcie.json", gpu("a100-pcie-80g"));
  // The shipped table of this GPU has the same rows.
  EXPECT_NEAR(us(gemm(t, GemmLayout::tn, 4096, 1536, 5120)), 262.15, 0.02);
  EXPECT_NEAR(us(gemm(t, GemmLayout::nn, 4096, 5120, 1536)), 279.98, 0.02);
  EXPECT_NEAR(us(gemm(t, GemmLayout::nt, 1536, 5120, 4096)), 330.67, 0.02);
  EXPECT_NEAR(us(gemm(t, GemmLayout::tn, 616, 3072, 5120, 40)), 3934.6, 0.5);
  EXPECT_NEAR(us(gemm(t, GemmLayout::nn, 616, 5120, 3072, 40)), 3657.9, 0.5);
  EXPECT_NEAR(us(gemm(t, GemmLayout::nt, 3072, 5120, 616, 40)), 4779.9, 2);
  EXPECT_EQ(t.gemms.size(), 6u);
  ASSERT_EQ(t.attentions.size(), 2u);
  EXPECT_NEAR(t.attentions[0].us, 4105.5, 0.5);
  EXPECT_TRUE(t.attentions[0].causal);
  EXPECT_EQ(t.attentions[0].k, 160);
  EXPECT_TRUE(t.attentions[1].backward);
  EXPECT_EQ(t.sources[0].derived, false);
}

TEST(ImportSimumax, GradientsNotAddedIntoFp32AreCounted) {
  std::vector<std::string> notes;
  const std::string text =
      replaced(sample("simumax_a100_pcie.json"), "layout=NT, accumulate=True, out_dtype=fp32",
               "layout=NT, accumulate=False, out_dtype=bf16");
  const TableText t = import_measurements(text, "f", gpu("a100-pcie-80g"), &notes);
  EXPECT_EQ(t.gemms.size(), 5u);
  EXPECT_THAT(notes, Contains(HasSubstr("1 efficiencies are not used")));
}

TEST(ImportSimumax, BrokenFilesAreRefused) {
  const std::string text = sample("simumax_a100_pcie.json");
  const MeasurementOptions o = gpu("a100-pcie-80g");
  EXPECT_THAT(problem(text, {}), HasSubstr("E334"));
  EXPECT_THAT(problem(text.substr(0, text.size() - 40), o), HasSubstr("E333"));
  EXPECT_THAT(problem(replaced(text, "b=1, m=4096, k=5120", "b=1, m=-4, k=5120"), o),
              AllOf(HasSubstr("file:16:"), HasSubstr("E333")));
  EXPECT_THAT(problem(replaced(text, "layout=TN", "layout=XY"), o), HasSubstr("E333"));
  EXPECT_THAT(problem(replaced(text, "0.7876672065615554", "0"), o), HasSubstr("E333"));
  EXPECT_THAT(problem(replaced(text, "stage=fwd", "stage=up"), o), HasSubstr("E333"));
  EXPECT_THAT(problem("{\"accurate_efficient_factor\": {}}", o), HasSubstr("E330"));
}

TEST(ImportCalculon, CurvesAreSampledAndDerived) {
  const std::string text = sample("calculon_h100_80g_nvl8.json");
  EXPECT_EQ(recognise_measurements(text), "calculon");
  std::vector<std::string> notes;
  const TableText t = import_measurements(text, "h100.json", gpu("h100-sxm"), &notes);
  ASSERT_EQ(t.sources.size(), 1u);
  EXPECT_TRUE(t.sources[0].derived);
  // 4096^3: 137.4 GFLOP at 95 % of 1000 TFLOP/s, then 100.7 MB at 90 % of 3072 GB/s.
  const double compute = 2.0 * 4096 * 4096 * 4096 / (1000e6 * 0.95);
  const double moved = 3.0 * 4096 * 4096 * 2 / (3072e3 * 0.9);
  double found = -1;
  for (const GemmRow& r : t.gemms)
    if (r.dtype == DType::fp16 && r.m == 4096) found = r.us;
  EXPECT_NEAR(found, compute + moved, 0.01);
  EXPECT_EQ(t.gemms.size(), 14u);  // fp16 and fp8, 256 to 16384
  EXPECT_EQ(t.memories.front().kernel, Kernel::add);
  EXPECT_NEAR(t.memories.front().us, 65536 / (3072e3 * 0.3), 1e-4);
  ASSERT_FALSE(t.collectives.empty());
  EXPECT_EQ(t.collectives[0].ranks, 8);
  // 1 KiB of all-reduce: latency, then 9/8 of the bytes at 65 % of 450 GB/s.
  EXPECT_NEAR(t.collectives[0].us, 10 + 1024 * 1.125 / (450e3 * 0.65), 1e-3);
  EXPECT_FALSE(t.copies.empty());
  EXPECT_THAT(notes, ElementsAre(HasSubstr("beyond the first")));
}

TEST(ImportCalculon, RooflineModeTakesTheLongerTime) {
  const std::string text =
      replaced(sample("calculon_h100_80g_nvl8.json"), "no_overlap", "roofline");
  const TableText t = import_measurements(text, "h100.json", gpu("h100-sxm"));
  double found = -1;
  for (const GemmRow& r : t.gemms)
    if (r.dtype == DType::fp16 && r.m == 4096) found = r.us;
  EXPECT_NEAR(found, 2.0 * 4096 * 4096 * 4096 / (1000e6 * 0.95), 0.01);
}

TEST(ImportCalculon, BrokenCurvesAreRefused) {
  const std::string text = sample("calculon_h100_80g_nvl8.json");
  const MeasurementOptions o = gpu("h100-sxm");
  EXPECT_THAT(problem(text, {}), HasSubstr("E334"));
  EXPECT_THAT(problem(replaced(text, "\"GBps\": 3072", "\"GBps\": 0"), o), HasSubstr("E333"));
  EXPECT_THAT(problem(replaced(text, "0.95", "1.95"), o), HasSubstr("E333"));
  EXPECT_THAT(problem(replaced(text, "\"mem1\"", "\"mem0\""), o), HasSubstr("E333"));
  EXPECT_THAT(problem(text.substr(0, text.size() / 2), o), HasSubstr("E333"));
}

TEST(ImportMeasurements, TablesOfAllToolsAreReadBack) {
  for (const auto& [name, preset] :
       std::map<std::string, std::string>{{"mamf_v2.txt", ""},
                                          {"simumax_a100_pcie.json", "a100-pcie-80g"},
                                          {"calculon_h100_80g_nvl8.json", "h100-sxm"},
                                          {"kineto_h100.json", ""},
                                          {"nccl_tests/h100_1n8_allreduce.txt", ""}}) {
    const TableText t = import_measurements(sample(name), name, gpu(preset));
    const std::string written = write_table(t);
    EXPECT_EQ(write_table(parse_table_text(written, name)), written) << name;
  }
}

class ImportJson : public ::testing::TestWithParam<const char*> {};

TEST_P(ImportJson, RefusesNumbersThatAreTooLargeAtTheirPlace) {
  MeasurementOptions options = gpu("h100-sxm");
  options.kind = GetParam();
  const std::string like_all =
      R"({"start_time": "", "args": [], "nccl_version": 1, "accurate_efficient_factor": 1,
"gflops_efficiency": 1, "MB_efficiency": 1e999})";
  EXPECT_THAT(problem(like_all, options),
              AllOf(HasSubstr("file:2:4"), HasSubstr("a number that is too large")));
}

INSTANTIATE_TEST_SUITE_P(Kinds, ImportJson, ::testing::Values("nccl-tests", "simumax", "calculon"));

}  // namespace
}  // namespace stepcast
