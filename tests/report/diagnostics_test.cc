// SPDX-License-Identifier: Apache-2.0
#include "report/diagnostics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

namespace stepcast::diagnostics_test {
namespace {

using nlohmann::json;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

Diagnostic unknown_key() {
  Diagnostic d;
  d.code = "E102";
  d.message = "unknown key 'global_batch_size' in 'batch'";
  d.file = "run.yaml";
  d.line = 5;
  d.column = 3;
  d.length = 17;
  d.source_line = "  global_batch_size: 256";
  d.label = "did you mean 'global'?";
  d.note = "Megatron's --global-batch-size is batch.global here";
  return d;
}

Diagnostic plain(const std::string& code) {
  Diagnostic d;
  d.code = code;
  d.message = "something";
  return d;
}

TEST(RenderDiagnostic, LooksLikeACompiler) {
  EXPECT_EQ(render_diagnostic(unknown_key()),
            "error[E102]: unknown key 'global_batch_size' in 'batch'\n"
            "  --> run.yaml:5:3\n"
            "   |\n"
            " 5 |   global_batch_size: 256\n"
            "   |   ^^^^^^^^^^^^^^^^^ did you mean 'global'?\n"
            "   = note: Megatron's --global-batch-size is batch.global here\n");
}

TEST(RenderDiagnostic, MakesRoomForLongLineNumbers) {
  Diagnostic d = unknown_key();
  d.line = 1234;
  const std::string text = render_diagnostic(d);
  EXPECT_THAT(text, HasSubstr("\n     --> run.yaml:1234:3\n      |\n 1234 |   global"));
}

TEST(RenderDiagnostic, WithoutAPlaceThereIsNoArrow) {
  Diagnostic d = plain("E003");
  d.help = "try this";
  EXPECT_EQ(render_diagnostic(d), "error[E003]: something\n   = help: try this\n");
}

TEST(RenderDiagnostic, WithoutTheSourceLineTheLabelIsKept) {
  Diagnostic d = unknown_key();
  d.source_line.clear();
  EXPECT_THAT(render_diagnostic(d), HasSubstr("   = did you mean 'global'?\n"));
}

TEST(RenderDiagnostic, EscapesAreShownAndTheMarkMovesAlong) {
  Diagnostic d = unknown_key();
  d.message = "unknown key 'a\x1b[31m'";
  d.source_line = "\x1b[31m\tabc: 1";
  d.column = 7;
  d.length = 3;
  d.label = "\xe2\x80\xae";
  const std::string text = render_diagnostic(d);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, HasSubstr("'a\\x1b[31m'"));
  EXPECT_THAT(text, HasSubstr(" 5 | \\x1b[31m abc: 1\n   |          ^^^ \\u202e\n"));
}

TEST(RenderDiagnostic, AMarkBeyondTheLineStaysInSight) {
  Diagnostic d = unknown_key();
  d.column = 999;
  d.length = 1000000;
  EXPECT_THAT(render_diagnostic(d),
              HasSubstr("  global_batch_size: 256\n   |                         ^ did"));
}

TEST(RenderDiagnostic, VeryLongLinesAreCutAroundTheMark) {
  Diagnostic d = unknown_key();
  d.source_line = std::string(5000, 'a') + "KEY" + std::string(5000, 'b');
  d.column = 5001;
  d.length = 3;
  const std::string text = render_diagnostic(d);
  EXPECT_LT(text.size(), 800u);
  const size_t key = text.find("KEY"), mark = text.find("^^^");
  ASSERT_NE(key, std::string::npos);
  EXPECT_EQ(key - text.rfind('\n', key), mark - text.rfind('\n', mark));
}

TEST(RenderDiagnostics, CountsAndExplains) {
  const std::vector<Diagnostic> two{plain("E210"), plain("E201")};
  EXPECT_THAT(render_diagnostics(two),
              EndsWith("2 errors. `stepcast help E210` explains a code. Nothing was run.\n"));
  EXPECT_THAT(render_diagnostics({two.data(), 1}),
              EndsWith("1 error. `stepcast help E210` explains it. Nothing was run.\n"));
  EXPECT_THAT(render_diagnostics({two.data(), 1}, {}, ""),
              EndsWith("1 error. `stepcast help E210` explains it.\n"));
}

TEST(DiagnosticsJson, CarriesTheFirstAndAll) {
  const std::vector<Diagnostic> two{unknown_key(), plain("E201")};
  const json j = json::parse(diagnostics_json(two));
  EXPECT_EQ(j["error"]["code"], "E102");
  EXPECT_EQ(j["error"]["file"], "run.yaml");
  EXPECT_EQ(j["error"]["line"], 5);
  EXPECT_EQ(j["error"]["col"], 3);
  ASSERT_EQ(j["errors"].size(), 2u);
  EXPECT_EQ(j["errors"][0], j["error"]);
  EXPECT_FALSE(j["errors"][1].contains("line"));
}

TEST(ErrorCodes, AreSortedUniqueAndExplained) {
  std::string_view previous;
  for (const ErrorCode& c : error_codes()) {
    EXPECT_LT(previous, c.code);
    previous = c.code;
    EXPECT_FALSE(c.title.empty());
    EXPECT_TRUE(c.explanation.ends_with('.')) << c.code;
  }
}

// Codes in quotes in the sources of the library and the command.
std::set<std::string> codes_in_sources() {
  const std::regex code("\"(E[0-9]{3})\"");
  std::set<std::string> codes;
  for (const char* folder :
       {"sim", "topology", "model", "schedules", "calibrate", "scenarios", "tools"}) {
    const std::filesystem::path root = std::filesystem::path(STEPCAST_SOURCE_DIR) / folder;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.path().extension() != ".cc") continue;
      std::ifstream in(entry.path());
      const std::string text(std::istreambuf_iterator<char>(in), {});
      for (std::sregex_iterator it(text.begin(), text.end(), code), end; it != end; ++it)
        codes.insert((*it)[1]);
    }
  }
  return codes;
}

TEST(ErrorCodes, EveryCodeThatCanAppearIsExplained) {
  const std::set<std::string> codes = codes_in_sources();
  EXPECT_GT(codes.size(), 10u);
  for (const std::string& code : codes) EXPECT_NE(find_error_code(code), nullptr) << code;
}

TEST(ErrorCodes, AreFoundByName) {
  ASSERT_NE(find_error_code("E102"), nullptr);
  EXPECT_EQ(find_error_code("E102")->title, "unknown key");
  EXPECT_EQ(find_error_code("E999"), nullptr);
  EXPECT_EQ(find_error_code(""), nullptr);
}

}  // namespace
}  // namespace stepcast::diagnostics_test
