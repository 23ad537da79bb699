// SPDX-License-Identifier: Apache-2.0
// mamf-finder, and what all importers have in common.
#include <fstream>
#include <sstream>

#include "calibrate/import/import_measurements.h"
#include "calibrate/table/write_table.h"
#include "sim/diagnostic.h"

namespace stepcast::import_other_tools_test {
namespace {

using ::testing::AllOf;
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

TEST(ImportMeasurements, TablesOfAllToolsAreReadBack) {
  for (const auto& [name, preset] :
       std::map<std::string, std::string>{{"mamf_v2.txt", ""},
                                          {"kineto_h100.json", ""},
                                          {"nccl_tests/h100_1n8_allreduce.txt", ""}}) {
    const TableText t = import_measurements(sample(name), name, gpu(preset));
    const std::string written = write_table(t);
    EXPECT_EQ(write_table(parse_table_text(written, name)), written) << name;
  }
}

TEST(ImportMeasurements, NumbersThatAreTooLargeAreRefusedAtTheirPlace) {
  MeasurementOptions options = gpu("h100-sxm");
  options.kind = "nccl-tests";
  EXPECT_THAT(problem("{\"start_time\": \"\", \"args\": [],\n\"nccl_version\": 1e999}", options),
              AllOf(HasSubstr("file:2:"), HasSubstr("a number that is too large")));
}

}  // namespace
}  // namespace stepcast::import_other_tools_test
