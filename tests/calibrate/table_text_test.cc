// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table/table_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/table/write_table.h"
#include "sim/diagnostic.h"
#include "tests/calibrate/tables.h"

namespace stepcast::table_text_test {
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

TEST(TableText, ReadsHowRowsWereMeasured) {
  const TableText t = parse_table_text(
      "# stepcast cost table\n# format: 1\n# gpu: g\n# power: 500W\n"
      "# source: s measured x\n# method: s layer low-entropy\n# source: u measured y\n"
      "# rows: 1\nlaunch,4,s\n",
      "t.csv");
  EXPECT_EQ(t.power_watts, 500);
  ASSERT_EQ(t.sources.size(), 2u);
  EXPECT_EQ(t.sources[0].kind, TimingKind::layer);
  EXPECT_EQ(t.sources[0].data, TimingData::low_entropy);
  EXPECT_EQ(t.sources[1].kind, TimingKind::unstated);
  const std::string written = write_table(t);
  EXPECT_NE(written.find("# method: s layer low-entropy\n"), std::string::npos) << written;
  EXPECT_NE(written.find("# power: 500W\n"), std::string::npos) << written;
  EXPECT_EQ(parse_table_text(written, "t.csv"), t);
}

TEST(TableText, RefusesMethodsThatItDoesNotKnow) {
  const std::string source = "# source: s measured x\n";
  EXPECT_EQ(problem(kHeader + source + "# method: nobody loop random\n# rows: 0\n"), "E303 7:11");
  EXPECT_EQ(problem(kHeader + source + "# method: s often random\n# rows: 0\n"), "E306 7:13");
  EXPECT_EQ(problem(kHeader + source + "# method: s loop nice\n# rows: 0\n"), "E306 7:18");
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
  EXPECT_NE(all[2].help.find("--accept-edits"), std::string::npos);
  EXPECT_EQ(problem(kHeader + "# source: third guessed x\n# rows: 0\n"), "E303 6:11");
  EXPECT_EQ(problem(kHeader + "# source: a,b measured x\n# rows: 0\n"), "E303 6:11");
  EXPECT_EQ(problem(kHeader + "# source:  measured x\n# rows: 0\n"), "E303 6:11");
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
  for (const char* bad : {"nan", "-nan", "inf", "-5", "0", "1e400", "", "12us", "0x10"}) {
    const std::string found = time(bad);
    EXPECT_EQ(found, "E305 7:22") << bad;
  }
  EXPECT_EQ(time("1,5"), "2 problems");  // a source `5` and a spread `bench`
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

TEST(TableText, WantsAsManyRanksAsTheNodesHave) {
  EXPECT_EQ(problem(table("collective,all_reduce,8,3,8,50,4,5,bench\n", 1)), "E305 7:23");
  EXPECT_EQ(problem(table("collective,all_reduce,8,1,4,0,4,5,bench\n", 1)), "E305 7:23");
  EXPECT_EQ(problem(table("collective,all_reduce,8,2,4,50,4,5,bench\n", 1)), "0 problems");
}

TEST(TableText, ReadsWhatFormatTwoAdds) {
  const TableText t = parse_table_text(
      "# stepcast cost table\n# format: 1\n# gpu: g\n# software: CUDA 13.0: all of it\n"
      "# conditions: 1410 MHz\n# conditions: 35 C\n# source: s measured x\n# rows: 7\n"
      "gemm,bf16,tn,1,2,3,1,4,s,0.25\ncopy,d2h,1048576,40.5,s,0.01\ncopy,h2d,1,2,s\n"
      "launch,4.1,s,0.2\ngraph_launch,1.6,s\n"
      "collective,send_recv,8,1,8,0,4096,7,s\n"
      "fit,gemm,bf16,5.3,230,1695,s,12,0.03,0.11,scattered\n",
      "t.csv");
  EXPECT_EQ(t.software, "CUDA 13.0: all of it");
  EXPECT_EQ(t.conditions, (std::vector<std::string>{"1410 MHz", "35 C"}));
  EXPECT_EQ(t.gemms.at(0).spread, 0.25);
  ASSERT_EQ(t.copies.size(), 2u);
  EXPECT_EQ(t.copies[0], (CopyRow{CopyKind::d2h, 1 << 20, 40.5, 0.01, 0}));
  EXPECT_EQ(t.copies[1], (CopyRow{CopyKind::h2d, 1, 2, 0, 0}));
  EXPECT_EQ(t.launch_spread, 0.2);
  EXPECT_EQ(t.graph_launch_us, 1.6);
  EXPECT_EQ(t.collectives.at(0).kind, WorkKind::send_recv);
  EXPECT_EQ(t.fits.at(0).rows, 12);
  EXPECT_EQ(t.fits.at(0).median_error, 0.03);
  EXPECT_EQ(t.fits.at(0).p90_error, 0.11);
  EXPECT_EQ(t.fits.at(0).flag, FitFlag::scattered);
}

TEST(TableText, RefusesBadRowsOfWhatFormatTwoAdds) {
  EXPECT_EQ(problem(table("gemm,bf16,tn,1,2,3,1,4,bench,nan\n", 1)), "E305 7:30");
  EXPECT_EQ(problem(table("gemm,bf16,tn,1,2,3,1,4,bench,0.1,2\n", 1)), "E304 7:1");
  EXPECT_EQ(problem(table("copy,h2h,8,1,bench\n", 1)), "E306 7:6");
  EXPECT_EQ(problem(table("copy,h2d,8,0,bench\n", 1)), "E305 7:12");
  EXPECT_EQ(problem(table("copy,h2d,8,1,bench\ncopy,h2d,8,2,bench\n", 2)), "E307 8:1");
  EXPECT_EQ(problem(table("graph_launch,1,bench\ngraph_launch,1,bench\n", 2)), "E307 8:1");
  EXPECT_EQ(problem(table("fit,gemm,bf16,1,2,3,bench,5\n", 1)), "E304 7:1");
  EXPECT_EQ(problem(table("fit,gemm,bf16,1,2,3,bench,5,-1,0\n", 1)), "E305 7:29");
  EXPECT_EQ(problem(table("fit,gemm,bf16,1,2,3,bench,5,0,0,fine\n", 1)), "E306 7:33");
}

TEST(TableText, FindsRowsThatAreTheSameInOtherDigits) {
  EXPECT_EQ(problem(table("collective,all_reduce,16,2,8,25,8,4,bench\n"
                          "collective,all_reduce,16,2,8,25.0,8,4,bench\n",
                          2)),
            "E307 8:1");
}

// ------------------------------------------------------------------------------------- checksums
std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

const std::string kWritten = write_table(test::full_table());

int line_of(const std::string& text, const std::string& begin) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(text.find("\n" + begin));
  return static_cast<int>(std::count(text.begin(), end, '\n')) + 2;
}

TEST(TableText, NoticesThatARowWasEditedAndNamesItsFamily) {
  for (const auto& [what, by, family] : std::vector<std::array<std::string, 3>>{
           {",155.87,", ",155.88,", "gemm"},
           {",2001,", ",2002,", "attention"},
           {"memory,add,4096,2.6", "memory,add,4097,2.6", "memory"},
           {",40.25,", ",40.35,", "copy"},
           {",120.1,", ",120.2,", "collective"},
           {"launch,4.1,", "launch,4.2,", "launch"},
           {"graph_launch,1.6,", "graph_launch,1.5,", "graph_launch"},
           {",1.481,", ",1.4,", "interference"},
           {",230,", ",231,", "fit"},
           {"ratio,nt,1.01,", "ratio,nt,1.02,", "ratio"}}) {
    const std::string edited = replaced(kWritten, what, by);
    const std::vector<Diagnostic> all = problems(edited);
    ASSERT_EQ(all.size(), 1u) << what;
    EXPECT_EQ(all[0].code, "E309");
    EXPECT_EQ(all[0].message, "rows of '" + family + "' were edited");
    EXPECT_EQ(all[0].line, line_of(edited, family + ",")) << what;
  }
}

TEST(TableText, NoticesThatTheHeaderWasEdited) {
  for (const auto& [what, by] : std::vector<std::pair<std::string, std::string>>{
           {"# gpu: test-gpu", "# gpu: best-gpu"},
           {"other derived", "other measured"},
           {"# nvlink_gbs: 450.5", "# nvlink_gbs: 900"}}) {
    const std::vector<Diagnostic> all = problems(replaced(kWritten, what, by));
    ASSERT_EQ(all.size(), 1u) << what;
    EXPECT_EQ(all[0].code, "E309");
    EXPECT_EQ(all[0].message, "the header was edited");
    EXPECT_EQ(all[0].line, 3);
  }
}

TEST(TableText, RemarksAndWindowsLineEndsAreNoEdits) {
  EXPECT_EQ(problem(replaced(kWritten, "# rows:", "# checked twice\n# rows:")), "0 problems");
  std::string windows;
  for (const char c : kWritten) windows += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_EQ(problem(windows), "0 problems");
}

TEST(TableText, NoticesThatChecksumsAreMissingOrForeign) {
  const size_t at = kWritten.find("# checksum: memory");
  std::string text = kWritten;
  text.erase(at, text.find('\n', at) + 1 - at);
  EXPECT_EQ(problem(text).substr(0, 4), "E309");
  EXPECT_EQ(problem(replaced(kWritten, "# checksum: gemm ", "# checksum: gemm 0")).substr(0, 4),
            "E309");
  EXPECT_EQ(problem(replaced(kWritten, "# checksum: gemm ", "# checksum: warp ")).substr(0, 4),
            "E303");
  EXPECT_EQ(problem(replaced(kWritten, "# rows:", "# checksum: warm\n# rows:")).substr(0, 4),
            "E303");
  EXPECT_EQ(
      problem(replaced(kWritten, "# checksum: gemm ", "# checksum: gemm 1\n# checksum: gemm "))
          .substr(0, 4),
      "E307");
  // Rows gone, and counted anew.
  text = replaced(kWritten, "copy,h2d,1048576,40.25,bench,0.02\n", "");
  EXPECT_EQ(problem(text).substr(0, 4), "E308");
}

TEST(TableText, EveryTruncationOfAWrittenTableIsNoticed) {
  for (size_t length = 0; length + 1 < kWritten.size(); ++length) {
    EXPECT_FALSE(problems(kWritten.substr(0, length)).empty()) << length;
  }
  EXPECT_TRUE(problems(kWritten).empty());
}

TEST(TableText, TakesEditsWhereTheyAreAccepted) {
  constexpr TableFile kEdited = TableFile::edited;
  const std::string edited = replaced(kWritten, ",155.87,", ",155.88,");
  EXPECT_EQ(parse_table_text(edited, "t.csv", kEdited).gemms.at(0).us, 155.88);
  const TableText unfinished = parse_table_text(kHeader + "launch,4.1,bench\n", "t.csv", kEdited);
  EXPECT_EQ(unfinished.launch_us, 4.1);
  // What a row says is checked all the same.
  EXPECT_THROW(parse_table_text(kHeader + "launch,-4.1,bench\n", "t.csv", kEdited), InputError);
}

TEST(TableText, CollectsProblemsButNotWithoutEnd) {
  std::string rows;
  for (int i = 0; i < 100; ++i) rows += "gemm,bf17,tn,1,2,3,1,4,bench\n";
  EXPECT_EQ(problems(table(rows, 100)).size(), 20u);
}

}  // namespace
}  // namespace stepcast::table_text_test
