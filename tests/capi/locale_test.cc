// SPDX-License-Identifier: Apache-2.0
// A program that the library is part of may have set a locale, in which 1,5 is a number, the lower
// case of I is no i, and the system speaks another language: answers and errors are the same bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libintl.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <clocale>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <locale>
#include <sstream>
#include <string>
#include <vector>

#include "capi/stepcast_c.h"
#include "tests/temporary_folder.h"

// glibc's newlocale() keeps the folders of LOCPATH that it has looked at; LeakSanitizer asks this.
extern "C" const char* __lsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __lsan_default_suppressions() {
  return "leak:argz_add_sep\n";
}

namespace {

namespace fs = std::filesystem;

// As the locales of Germany and Turkey have them; what is not under test is that of C.
constexpr const char* kLocale = R"(LC_IDENTIFICATION
title "a decimal comma, and a dotted capital I"
END LC_IDENTIFICATION
LC_CTYPE
copy "tr_TR"
END LC_CTYPE
LC_NUMERIC
copy "de_DE"
END LC_NUMERIC
LC_COLLATE
copy "POSIX"
END LC_COLLATE
LC_TIME
copy "POSIX"
END LC_TIME
LC_MONETARY
copy "POSIX"
END LC_MONETARY
LC_MESSAGES
copy "POSIX"
END LC_MESSAGES
)";

// A catalogue of one message, as gettext reads it: the places and lengths of the originals, those
// of the translations, then the texts.
std::string catalogue(const std::string& original, const std::string& translation) {
  const auto length = [](const std::string& s) { return static_cast<uint32_t>(s.size()); };
  const uint32_t texts = 7 * 4 + 2 * 2 * 4;
  const std::array<uint32_t, 11> header{0x950412de,
                                        0,
                                        1,
                                        28,
                                        36,
                                        0,
                                        texts,
                                        length(original),
                                        texts,
                                        length(translation),
                                        texts + length(original) + 1};
  std::string bytes(sizeof header, '\0');
  std::memcpy(bytes.data(), header.data(), sizeof header);
  return bytes + original + '\0' + translation + '\0';
}

class LocaleTest : public testing::Test {
 protected:
  void TearDown() override {
    std::locale::global(std::locale::classic());
    ::unsetenv("LOCPATH");
    ::unsetenv("LANGUAGE");
  }
  stepcast::testing::TemporaryFolder folder_;
};

std::string taken(stepcast_answer* answer) {
  size_t length = 0;
  const char* begin = stepcast_bytes(answer, &length);
  std::string bytes = std::to_string(stepcast_status(answer)) + ' ' + std::string(begin, length);
  stepcast_free(answer);
  return bytes;
}

// An answer in all its forms.
void take(std::vector<std::string>& all, stepcast_answer* answer,
          const std::vector<const char*>& forms) {
  for (const char* form : forms) {
    const std::string request = std::string(R"({"form": ")") + form + "\"}";
    all.push_back(taken(stepcast_render(answer, request.c_str())));
  }
  all.push_back(taken(answer));
}

std::vector<std::string> answers() {
  const std::string scenario =
      R"("text": "{model: llama3-8b, cluster: dgx-h100 x 1, batch: {global: 8, seq: 1024},)"
      R"( parallel: {tp: 2}, perturb: [{where: rank 3, compute: 0.8}],)"
      R"( job: {tokens: 1.5B, price: 2.5USD/GPUh}}", "name": "My_I")";
  const std::string plain =
      R"("text": "{model: llama3-8b, cluster: dgx-h100 x 1, batch: {global: 8, seq: 1024},)"
      R"( job: {tokens: 1.5B, price: 2.5USD/GPUh, checkpoint: {every: 2.5h}}}", "name": "My_I")";
  const auto request = [](const std::string& of, const char* more = "") {
    return '{' + of + more + '}';
  };
  std::vector<std::string> all;
  take(all, stepcast_run(request(scenario).c_str(), nullptr, nullptr), {"text", "html"});
  take(all, stepcast_run(request(plain).c_str(), nullptr, nullptr), {"text", "ops", "perfetto"});
  take(all, stepcast_train(request(plain).c_str()), {"text", "html"});
  take(all,
       stepcast_search(
           request(plain, R"(, "jobs": 1, "where": ["tp <= 4 and 16 * dp >= 1.5"])").c_str(),
           nullptr, nullptr),
       {"text", "csv", "html"});
  take(all, stepcast_size(R"({"model": "llama3-8b", "tokens": "1.5T", "search": false})"),
       {"text"});
  take(all, stepcast_presets(R"({"kind": "gpus"})"), {});
  take(all, stepcast_load(R"({"text": "{model: LLAMA3-8B, batch: {seq: 1,5}}", "name": "I"})"),
       {"text"});
  return all;
}

TEST_F(LocaleTest, AnswersAreTheSameBytes) {
  const std::string source = folder_.write("source", kLocale);
  const std::string name = "stepcast_TEST.UTF-8";
  // Without --force it would make nothing where it warns of names that the locale lacks.
  const std::string command = "localedef --force --quiet -i '" + source + "' -f UTF-8 '" +
                              (folder_.path() / name).string() + "' >/dev/null 2>&1";
  if (!fs::exists("/usr/share/i18n/locales/tr_TR") ||
      std::system("command -v localedef >/dev/null") != 0)
    GTEST_SKIP() << "no localedef and sources of locales: Debian's package 'locales' has them";
  static_cast<void>(std::system(command.c_str()));
  ::setenv("LOCPATH", folder_.path().c_str(), 1);
  const std::vector<std::string> before = answers();
  std::locale::global(std::locale(name));  // that of C as well
  std::ostringstream shown;
  shown << 1234.5;
  ASSERT_EQ(shown.str(), "1.234,5");
  ASSERT_EQ(std::strtod("1,5", nullptr), 1.5);
  ASSERT_NE(std::tolower('I'), 'i');
  const std::vector<std::string> after = answers();
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].starts_with("0 "), i + 1 < before.size())
        << before[i];  // the last is refused
    EXPECT_TRUE(before[i] == after[i]) << i << ": " << before[i].substr(0, 300) << "\n"
                                       << after[i].substr(0, 300);
  }
}

TEST_F(LocaleTest, ErrorsOfFilesAreInEnglish) {
  // The system's messages are translated by the catalogue of libc, of which this is one.
  folder_.write("xx/LC_MESSAGES/libc.mo", catalogue("Not a directory", "Kein Verzeichnis"));
  std::locale::global(std::locale("C.UTF-8"));
  ::setenv("LANGUAGE", "xx", 1);
  ::bindtextdomain("libc", folder_.path().c_str());
  ASSERT_STREQ(std::strerror(ENOTDIR), "Kein Verzeichnis");
  const std::string file = folder_.write("file", "");
  const std::string scenario =
      R"("text": "{model: llama3-8b, cluster: dgx-h100 x 1, batch: {global: 8, seq: 1024}}", "name": "a")";
  const std::vector<std::string> errors{
      taken(stepcast_load((R"({"file": ")" + file + R"(/my.yaml"})").c_str())),
      taken(stepcast_search(('{' + scenario + R"(, "store": ")" + file + R"(/runs"})").c_str(),
                            nullptr, nullptr))};
  ::bindtextdomain("libc", "/usr/share/locale");
  EXPECT_THAT(errors, testing::Each(testing::HasSubstr("Not a directory")));
}

}  // namespace
