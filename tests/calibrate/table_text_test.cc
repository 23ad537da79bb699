// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/diagnostic.h"

namespace stepcast {
namespace {

const std::string kHeader =
    "# stepcast cost table\n"
    "# format: 1\n"
    "# gpu: test-gpu\n"
    "# source: bench measured a benchmark, 2 runs\n"
    "# source: other derived from another GPU\n";

std::string table(const std::string& rows, int count) {
  return kHeader + "# rows: " + std::to_string(count) + "\n" + rows;
}

std::vector<Diagnostic> problems(const std::string& text) {
  try {
    parse_table_text(text, "t.csv");
  } catch (const InputError& e) {
    return e.diagnostics;
  }
  return {};
}

// The one problem of a text, as "CODE line:column".
std::string problem(const std::string& text) {
  const std::vector<Diagnostic> all = problems(text);
  if (all.size() != 1) return std::to_string(all.size()) + " problems";
  return all[0].code + " " + std::to_string(all[0].line) + ":" + std::to_string(all[0].column);
}

TEST(TableText, ReadsEveryFamily) {
  const TableText t =
      parse_table_text(table("gemm,bf16,nt,4096,1536,7168,2,360.25,bench\n"
                             "attention,bwd,fp16,1,32,8,4096,2048,128,3,778.3,other\n"
                             "memory,layer_norm,12582912,12.5,bench\n"
                             "collective,reduce_scatter,16,2,8,25,1048576,120.1,bench\n"
                             "fit,gemm,bf16,5.3,230,1695,other\n"
                             "ratio,nn,0.99,other\n"
                             "launch,4.1,bench\n",
                             7),
                       "t.csv");
  EXPECT_EQ(t.gpu, "test-gpu");
  ASSERT_EQ(t.sources.size(), 2u);
  EXPECT_EQ(t.sources[0].text, "a benchmark, 2 runs");
  EXPECT_FALSE(t.sources[0].derived);
  EXPECT_TRUE(t.sources[1].derived);
  ASSERT_EQ(t.gemms.size(), 1u);
  EXPECT_EQ(t.gemms[0].layout, GemmLayout::nt);
  EXPECT_EQ(t.gemms[0].m, 4096);
  EXPECT_EQ(t.gemms[0].n, 1536);
  EXPECT_EQ(t.gemms[0].k, 7168);
  EXPECT_EQ(t.gemms[0].batch, 2);
  EXPECT_EQ(t.gemms[0].us, 360.25);
  ASSERT_EQ(t.attentions.size(), 1u);
  EXPECT_TRUE(t.attentions[0].backward);
  EXPECT_TRUE(t.attentions[0].causal);
  EXPECT_EQ(t.attentions[0].kv_heads, 8);
  EXPECT_EQ(t.attentions[0].n, 2048);
  EXPECT_EQ(t.attentions[0].source, 1);
  ASSERT_EQ(t.memories.size(), 1u);
  EXPECT_EQ(t.memories[0].kernel, Kernel::layer_norm);
  ASSERT_EQ(t.collectives.size(), 1u);
  EXPECT_EQ(t.collectives[0].kind, WorkKind::reduce_scatter);
  EXPECT_EQ(t.collectives[0].nic_gbs, 25);
  ASSERT_EQ(t.fits.size(), 1u);
  EXPECT_EQ(t.fits[0].gbs, 1695);
  EXPECT_EQ(t.ratio_nn, 0.99);
  EXPECT_FALSE(t.ratio_nt.has_value());
  EXPECT_EQ(t.launch_us, 4.1);
}

TEST(TableText, TakesWindowsLineEndsRemarksAndBlankLines) {
  const TableText t = parse_table_text(
      "# stepcast cost table\r\n# format: 1\r\n# gpu: g\r\n# just a remark\r\n"
      "# source: s measured x\r\n# rows: 1\r\n\r\nlaunch,4,s\r\n",
      "t.csv");
  EXPECT_EQ(t.gpu, "g");
  EXPECT_EQ(t.launch_us, 4);
}

TEST(TableText, ReadsTheConditionsOfCollectivesAndWhatIsShared) {
  const TableText t = parse_table_text(kHeader +
                                           "# nvlink_gbs: 450\n# in_network_reduction: yes\n"
                                           "# share: h100-sxm gemm memory\n# rows: 0\n",
                                       "t.csv");
  EXPECT_EQ(t.nvlink_gbs, 450);
  EXPECT_TRUE(t.in_network_reduction);
  EXPECT_EQ(t.share_from, "h100-sxm");
  EXPECT_TRUE(t.shared[static_cast<size_t>(Family::gemm)]);
  EXPECT_TRUE(t.shared[static_cast<size_t>(Family::memory)]);
  EXPECT_FALSE(t.shared[static_cast<size_t>(Family::collective)]);
}

TEST(TableText, RefusesForeignFiles) {
  EXPECT_EQ(problem(""), "E301 0:1");
  EXPECT_EQ(problem("gpu,op,M,N,K\n"), "E301 1:1");
  EXPECT_EQ(problem(std::string("\x7f"
                                "ELF\0\1\2",
                                7)),
            "E301 1:1");
}

TEST(TableText, RefusesANewerFormatBeforeItsRows) {
  EXPECT_EQ(problem("# stepcast cost table\n# format: 3\n# gpu: g\nwarp,1,2,3\n"), "E302 2:1");
}

TEST(TableText, RefusesAnIncompleteHeader) {
  const std::vector<Diagnostic> all = problems("# stepcast cost table\n");
  ASSERT_EQ(all.size(), 3u);  // format, gpu, rows
  for (const Diagnostic& d : all) EXPECT_EQ(d.code, "E303");
  EXPECT_EQ(problem(kHeader + "# source: third guessed x\n# rows: 0\n"), "E303 6:11");
}

TEST(TableText, NoticesThatRowsAreMissing) {
  EXPECT_EQ(problem(table("launch,4.1,bench\n", 2)), "E308 7:1");
  EXPECT_EQ(problem(table("launch,4.1,bench\nratio,nn,1,bench\n", 1)), "E308 8:1");
}

TEST(TableText, NoticesARowCutInTheMiddle) {
  const std::vector<Diagnostic> all =
      problems(table("gemm,bf16,tn,1,2,3,1,4,bench\ngemm,bf16,t", 2));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].code, "E304");
  EXPECT_EQ(all[0].line, 8);
  EXPECT_EQ(all[0].source_line, "gemm,bf16,t");
}

TEST(TableText, RefusesNumbersThatAreNone) {
  const auto time = [](const std::string& us) {
    return problem(table("gemm,bf16,tn,1,2,3,1," + us + ",bench\n", 1));
  };
  EXPECT_EQ(time("12.5"), "0 problems");
  for (const char* bad : {"nan", "-nan", "inf", "-5", "0", "1e400", "", "12us", "0x10", "1,5"}) {
    const std::string found = time(bad);
    EXPECT_TRUE(found == "E305 7:22" || found == "E304 7:1") << bad << ": " << found;
  }
  for (const char* bad : {"0", "-1", "1.5", "9999999999999999999999", "", " 4"}) {
    EXPECT_EQ(problem(table("gemm,bf16,tn," + std::string(bad) + ",2,3,1,9,bench\n", 1)),
              "E305 7:14")
        << bad;
  }
}

TEST(TableText, RefusesUnknownWords) {
  EXPECT_EQ(problem(table("gemm,bf17,tn,1,2,3,1,4,bench\n", 1)), "E306 7:6");
  EXPECT_EQ(problem(table("gemm,bf16,tt,1,2,3,1,4,bench\n", 1)), "E306 7:11");
  EXPECT_EQ(problem(table("gemm,bf16,tn,1,2,3,1,4,nobody\n", 1)), "E306 7:24");
  EXPECT_EQ(problem(table("memory,frobnicate,8,1,bench\n", 1)), "E306 7:8");
  EXPECT_EQ(problem(table("memory,none,8,1,bench\n", 1)), "E306 7:8");
  EXPECT_EQ(problem(table("collective,gemm,8,1,8,0,4,5,bench\n", 1)), "E306 7:12");
  EXPECT_EQ(problem(table("collective,shift,2,1,2,0,4,5,bench\n", 1)), "E306 7:12");
  EXPECT_EQ(problem(table("attention,up,bf16,1,1,1,1,1,1,1,1,bench\n", 1)), "E306 7:11");
  EXPECT_EQ(problem(table("attention,fwd,bf16,2,1,1,1,1,1,1,1,bench\n", 1)), "E306 7:20");
  EXPECT_EQ(problem(table("ratio,tt,1,bench\n", 1)), "E306 7:7");
  EXPECT_EQ(problem(table("warp,1,2\n", 1)), "E304 7:1");
  EXPECT_EQ(problem(table("interference,0.9,2,bench\n", 1)), "E305 7:14");
  EXPECT_EQ(problem(kHeader + "# share: x gemm warp\n# rows: 0\n"), "E306 6:17");
}

TEST(TableText, RefusesRowsThatWereThereBefore) {
  EXPECT_EQ(problem(table("gemm,bf16,tn,1,2,3,1,4,bench\n"
                          "gemm,bf16,nn,1,2,3,1,4,bench\n"
                          "gemm,bf16,tn,1,2,3,1,5,other\n",
                          3)),
            "E307 9:1");
  EXPECT_EQ(problem(table("memory,add,8,1,bench\nmemory,add,8,1,bench\n", 2)), "E307 8:1");
  EXPECT_EQ(problem(table("launch,1,bench\nlaunch,1,bench\n", 2)), "E307 8:1");
  EXPECT_EQ(problem(table("ratio,nt,1,bench\nratio,nt,1,bench\n", 2)), "E307 8:1");
  EXPECT_EQ(problem(table("interference,1,2,bench\ninterference,1,2,bench\n", 2)), "E307 8:1");
  EXPECT_EQ(problem(table("fit,gemm,bf16,1,2,3,bench\nfit,gemm,bf16,1,2,3,bench\n", 2)),
            "E307 8:1");
  EXPECT_EQ(problem(kHeader + "# source: bench measured again\n# rows: 0\n"), "E307 6:11");
}

TEST(TableText, WantsTheNicRateOfGroupsOnSeveralNodes) {
  EXPECT_EQ(problem(table("collective,all_reduce,16,2,8,0,4,5,bench\n", 1)), "E305 7:30");
  EXPECT_EQ(problem(table("collective,all_reduce,8,1,8,0,4,5,bench\n", 1)), "0 problems");
}

TEST(TableText, CollectsProblemsButNotWithoutEnd) {
  std::string rows;
  for (int i = 0; i < 100; ++i) rows += "gemm,bf17,tn,1,2,3,1,4,bench\n";
  EXPECT_EQ(problems(table(rows, 100)).size(), 20u);
}

}  // namespace
}  // namespace stepcast
