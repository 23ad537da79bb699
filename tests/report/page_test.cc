// SPDX-License-Identifier: Apache-2.0
#include "report/html/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "report/html/compress.h"
#include "report/html/exposed.h"
#include "report/html/gantt.h"
#include "report/html/markup.h"
#include "report/html/step_data.h"
#include "report/text/roles.h"
#include "sim/results/step_ranking.h"
#include "sim/text.h"
#include "tests/report/sample.h"

namespace stepcast::page_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string page_of(const Result& result, const PageFacts& facts = {}) {
  std::string page;
  write_run_page(result, facts, [&](std::string_view piece) { page += piece; });
  return page;
}

size_t count_of(const std::string& text, const std::string& word) {
  size_t n = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

TEST(Page, IsTheSameBytesAgain) {
  EXPECT_EQ(page_of(sample_result()), page_of(sample_result()));
}

TEST(Page, HasNothingFromOutside) {
  const std::string page = page_of(sample_result());
  EXPECT_GE(count_of(page, "default-src 'none'"), 1u);
  EXPECT_EQ(count_of(page, "unsafe"), 0u);
  EXPECT_EQ(count_of(page, "src=\"http"), 0u);
  EXPECT_EQ(count_of(page, "href=\"http"), 0u);
  EXPECT_EQ(count_of(page, " style=\""), 0u);
}

// What a browser makes of it is tested in tests/page.
TEST(Page, NamesAreText) {
  Result result = sample_result();
  const std::string bad = "<script>x</script>\"&\n\xE2\x80\xAE";
  result.scenario.name = bad;
  result.scenario.warnings = {bad};
  result.calibration = bad;
  PageFacts facts;
  facts.description = facts.command = bad;
  facts.settings = {{bad, bad, bad}};
  facts.published = {{13.0, std::nullopt, std::nullopt, 0.1, bad}};
  const std::string page = page_of(result, facts);
  EXPECT_EQ(count_of(page, "<script"), count_of(page_of(sample_result()), "<script"));
  EXPECT_EQ(count_of(page, "</script"), count_of(page, "<script"));
  EXPECT_EQ(count_of(page, "\xE2\x80\xAE"), 0u);
  EXPECT_GE(count_of(page, "&lt;script&gt;x&lt;/script&gt;&quot;&amp;\\x0a\\u202e"), 8u);
}

std::string compare_page_of(std::span<const PageCase> cases) {
  std::string page;
  const std::vector<LeftOut> left_out{{"<b>out</b>", {Diagnostic{}}}};
  write_compare_page(cases, 1, {}, left_out, [&](std::string_view piece) { page += piece; });
  return page;
}

TEST(ComparePage, HasAPictureAndTheNumbersOfEachCase) {
  const Result one = sample_result(), two = sample_result();
  const std::vector<PageCase> cases{{"<i>one</i>", &one, {{"a.b", "1", ""}, {"c", "same", ""}}, {}},
                                    {"two", &two, {{"a.b", "<2>", ""}, {"c", "same", ""}}, {}}};
  const std::string page = compare_page_of(cases);
  EXPECT_EQ(count_of(page, "<svg class=\"gantt\""), 2u);
  EXPECT_EQ(count_of(page, "<i>one"), 0u);
  EXPECT_EQ(count_of(page, "<b>out"), 0u);
  EXPECT_GE(count_of(page, "a.b</th><td>1</td><td>&lt;2&gt;</td>"), 1u);
  EXPECT_EQ(count_of(page, "<td>same</td>"), 0u);
  EXPECT_GE(count_of(page, "baseline</td>"), 1u);
}

TEST(ComparePage, HasDaysAndPriceOfTheTrainingWhereAnyCaseKnowsThem) {
  const Result one = sample_result(), two = sample_result();
  std::vector<PageCase> cases{{"one", &one, {}, {}}, {"two", &two, {}, {}}};
  EXPECT_EQ(count_of(compare_page_of(cases), "The whole training"), 0u);
  TrainingPlan plan;
  plan.wall = 195.0 * 86400;
  plan.useful_share = 0.99;
  plan.gpu_hours = 299'500;
  plan.price = 598'900;
  cases[1].whole_run = plan;
  const std::string page = compare_page_of(cases);
  EXPECT_THAT(page, HasSubstr("<td class=\"n\">195.0</td>"));
  EXPECT_THAT(page, HasSubstr("$598.9 k"));
}

TEST(Page, NamesTheModelInItsHeader) {
  PageFacts facts;
  facts.model = "<b>m</b>, 8.030 B parameters";
  const std::string line = "&lt;b&gt;m&lt;/b&gt;, 8.030 B parameters</p></header>";
  EXPECT_THAT(page_of(sample_result(), facts), HasSubstr('\n' + line));
  const auto kept = [](std::string& page) {
    return [&page](std::string_view piece) { page += piece; };
  };
  std::string search, compare;
  write_search_page({}, {}, facts, kept(search));
  const Result one = sample_result();
  const std::vector<PageCase> cases{{"one", &one, {}, {}}};
  write_compare_page(cases, 0, facts, {}, kept(compare));
  for (const std::string& page : {search, compare}) EXPECT_THAT(page, HasSubstr(line));
}

TEST(ComparePage, OfSeveralSeedsTheMeansAreCompared) {
  Result one = sample_result(), two = sample_result();
  one.replicas = ReplicaTimes{.count = 3, .mean = Time{2'000'000'000}};
  two.replicas = ReplicaTimes{.count = 3, .mean = Time{3'000'000'000}};
  one.interval.emplace().level = 0.6;
  const std::vector<PageCase> cases{{"one", &one, {}, {}}, {"two", &two, {}, {}}};
  const std::string page = compare_page_of(cases);
  EXPECT_THAT(page, HasSubstr("mean step, "));
  EXPECT_THAT(page, HasSubstr("-33.3 %"));  // the second is the baseline
  EXPECT_THAT(page, HasSubstr("60 % interval"));
  EXPECT_THAT(page, Not(HasSubstr("80 % interval")));
}

SearchResult found_layouts() {
  SearchResult search;
  search.name = "<b>s</b>";
  search.objectives = {SearchObjective::step_time};
  search.points = 100;
  search.illegal = {{"rule", "<i>illegal</i>", 90}};
  search.layouts = 10;
  search.decided = {{"simulated", "simulated: fit", 10}};
  for (int i = 0; i < 3; ++i) {
    FoundLayout& layout = search.best.emplace_back();
    layout.step_time = Time{(10 + i) * int64_t{1'000'000'000'000}};
    layout.reserved = Bytes{int64_t{40 - i} << 30};
    layout.usable = Bytes{int64_t{70} << 30};
    layout.schedule = "<u>1f1b</u>";
    layout.set = {{"parallel.tp", "<s>"}};
    layout.on_front = i != 1;
  }
  return search;
}

// Rows as a store has them: of a few axes, some too large.
StepRow row_of(int i) {
  StepRow row;
  row.key = {static_cast<uint64_t>(i), 0};
  row.name = "<b>s</b>";
  row.file = "my run.yaml";
  row.gpu = "H100-SXM";
  row.tp = int64_t{1} << i % 4;
  row.pp = int64_t{1} << i / 4 % 4;
  row.micro_batch = 1 + i / 16 % 4;
  row.recompute = "none";
  row.schedule = "<u>1f1b</u>";
  row.settings = "parallel.tp=" + std::to_string(row.tp) + " 'name=<s> " + std::to_string(i) + "'";
  row.step_time_ps = int64_t{10'000'000'000'000} + int64_t{i} * 7'654'321'987 % 5'000'000'000'000;
  row.peak_bytes = int64_t{30} << 30;
  row.reserved_bytes = (int64_t{20} << 30) + int64_t{i} * 1'234'567'891 % (int64_t{60} << 30);
  row.usable_bytes = int64_t{70} << 30;
  row.tokens_per_gpu_s = 1e16 / static_cast<double>(*row.step_time_ps);
  row.mfu = *row.tokens_per_gpu_s / 2500;
  return row;
}

std::vector<StepRow> rows_of(int count) {
  std::vector<StepRow> rows;
  for (int i = 0; i < count; ++i) rows.push_back(row_of(i));
  return rows;
}

std::string search_page_of(const SearchResult& search, const StepPoints& points = {}) {
  std::string page;
  write_search_page(search, points, {}, [&](std::string_view piece) { page += piece; });
  return page;
}

std::string store_page_of(std::vector<StepRow> rows) {
  StorePage store;
  store.names = {"<b>s</b>"};
  store.best = rank_steps(rows, store.ranking);
  store.steps = stored_steps(std::move(rows), store.ranking);
  PageFacts facts;
  facts.files = {"<i>runs</i>.db"};
  std::string page;
  write_store_page(store, facts, [&](std::string_view piece) { page += piece; });
  return page;
}

TEST(StorePage, ListsAndDrawsTheRows) {
  const std::string page = store_page_of(rows_of(64));
  EXPECT_EQ(count_of(page, "<svg class=\"scatter\""), 1u);
  EXPECT_EQ(count_of(page, "<circle class=\"first\""), 1u);
  EXPECT_EQ(count_of(page, "dots lost"), 1u);
  EXPECT_THAT(page, HasSubstr("64 forecasts, of which "));
  EXPECT_THAT(
      page,
      HasSubstr("<code>stepcast run 'my run.yaml' -s parallel.tp=1 -s 'name=&lt;s&gt; 0'</code>"));
  EXPECT_THAT(page, HasSubstr("&lt;i&gt;runs&lt;/i&gt;.db"));
  for (const char* tag : {"<b>s<", "<u>1f1b", "<s>", "<i>runs"})
    EXPECT_EQ(count_of(page, tag), 0u) << tag;
}

TEST(StorePage, IsTheSameInWhateverOrderRowsAreRead) {
  std::vector<StepRow> rows = rows_of(64), back(rows.rbegin(), rows.rend());
  back.insert(back.end(), rows.begin(), rows.begin() + 9);
  EXPECT_EQ(store_page_of(rows), store_page_of(back));
}

TEST(StorePage, WithoutARowThatFitsSaysSo) {
  std::vector<StepRow> rows = rows_of(3);
  for (StepRow& row : rows) row.reserved_bytes = row.usable_bytes;
  const std::string page = store_page_of(rows);
  EXPECT_THAT(page, HasSubstr("No row fits with 5 % of the memory left free and has step_time."));
  EXPECT_EQ(count_of(page, "<circle"), 0u);
  EXPECT_THAT(store_page_of({}), HasSubstr("0 forecasts"));
}

TEST(StorePage, OfAHundredThousandRowsHasSixMegabytes) {
  EXPECT_LE(store_page_of(rows_of(100'000)).size(), 6'000'000u);
}

TEST(SearchPage, DrawsAndListsTheLayouts) {
  StepPoints points;
  points.rows = rows_of(9);
  points.counted = 4;
  const std::string page = search_page_of(found_layouts(), points);
  EXPECT_EQ(count_of(page, "<svg class=\"scatter\""), 1u);
  EXPECT_THAT(page, HasSubstr("9 forecasts, of which 4 fit"));
  EXPECT_EQ(count_of(page, "<code>-s 'parallel.tp=&lt;s&gt;'</code>"), 3u);
  EXPECT_GE(count_of(page, "+10.0 %"), 1u);
  for (const char* tag : {"<b>s<", "<i>illegal", "<u>1f1b", "<s>"})
    EXPECT_EQ(count_of(page, tag), 0u);
}

TEST(SearchPage, SaysWhatIsNearestWhereNothingFits) {
  SearchResult search = found_layouts();
  search.nearest = search.best.back();
  search.best.clear();
  const std::string page = search_page_of(search);
  EXPECT_THAT(page, HasSubstr("No layout fits with 0 % of the memory left free. Nearest is "));
  EXPECT_THAT(page, HasSubstr("38.0 GiB of 70.0 usable"));
  EXPECT_EQ(count_of(page, "<circle"), 0u);
}

TEST(SearchPage, WhereAllBreakAConstraintNothingIsSaidOfMemory) {
  SearchResult search = found_layouts();
  search.breaking = search.best.front();
  search.broken_constraints = {"step_time <= 5s"};
  search.best.clear();
  const std::string page = search_page_of(search);
  EXPECT_THAT(page, HasSubstr("Layouts fit, but none keeps the constraints. The best of them is "));
  EXPECT_THAT(page, HasSubstr("It breaks 'step_time &lt;= 5s'."));
  EXPECT_THAT(page, Not(HasSubstr("No layout fits")));
}

TEST(SearchPage, StoppedEarlyItDoesNotSayThatNothingFits) {
  SearchResult search = found_layouts();
  search.undecided = 7;
  search.all_seen = false;
  const std::string found = search_page_of(search);
  EXPECT_THAT(found, HasSubstr("stopped before all layouts were known"));
  EXPECT_THAT(found, HasSubstr("not looked at: the search was stopped"));
  search.best.clear();
  const std::string none = search_page_of(search);
  EXPECT_THAT(none, HasSubstr("was stopped before it came to a layout that fits"));
  EXPECT_THAT(none, Not(HasSubstr("No layout fits")));
}

TEST(SearchPage, WhatTheShellWouldTakeApartStandsInQuotes) {
  SearchResult search = found_layouts();
  search.run_words = {"my run.yaml"};
  search.best.front().set = {{"moe", "{ep: 4}"}};
  const std::string page = search_page_of(search);
  EXPECT_THAT(page, HasSubstr("<code>-s 'moe={ep: 4}'</code>"));
  EXPECT_THAT(page, HasSubstr("<code>stepcast run 'my run.yaml' -s "
                              "'moe={ep: 4}'</code>"));
}

TEST(Page, WasBuiltOfItsSources) {
  const std::filesystem::path folder = std::string(STEPCAST_SOURCE_DIR) + "/report/page";
  std::vector<std::filesystem::path> sources;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "source"))
    sources.push_back(entry.path());
  std::ranges::sort(sources);
  uint64_t hash = kHashStart;
  for (const auto& path : sources) {
    hash = hash_text(path.filename().string() + '\0', hash);
    hash = hash_text(read_file(path) + '\0', hash);
  }
  EXPECT_THAT(read_file(folder / "page.html"),
              HasSubstr("<meta name=\"stepcast-sources\" content=\"" + hex_of(hash) + "\">"))
      << "after a change of report/page/source run tools/page_tools build";
}

TEST(Compress, IsReadBackByZlib) {
  const std::string text = std::string(100000, 'a') + "end";
  const std::string small = deflated(text);
  EXPECT_LT(small.size(), 1000u);
  std::string back(text.size(), ' ');
  auto size = static_cast<uLongf>(back.size());
  // NOLINTBEGIN(cppcoreguidelines-pro-type-reinterpret-cast)
  EXPECT_EQ(
      uncompress(reinterpret_cast<Bytef*>(back.data()), &size,
                 reinterpret_cast<const Bytef*>(small.data()), static_cast<uLong>(small.size())),
      Z_OK);
  // NOLINTEND(cppcoreguidelines-pro-type-reinterpret-cast)
  EXPECT_EQ(back, text);
}

TEST(Compress, WritesBase64AsTheStandardShows) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

TEST(Markup, ABarIsAsWideAsItsParts) {
  const std::vector<BarPart> parts{{0.25, "a", "one"}, {0, "b", ""}, {0.5, "c", ""}};
  const std::string bar = html_bar(parts);
  EXPECT_THAT(bar, HasSubstr("class=\"a\" x=\"0.0\" width=\"250.0\""));
  EXPECT_THAT(bar, HasSubstr("class=\"c\" x=\"250.0\" width=\"500.0\""));
  EXPECT_THAT(bar, Not(HasSubstr("class=\"b\"")));
}

// The sample waits for its all-reduces, 20 us each, with nothing beside them.
TEST(Exposed, IsWhatRunsWhileNothingComputes) {
  const Result result = sample_result();
  const std::vector<ExposedLine> lines = exposed_lines(result, 0);
  ASSERT_FALSE(lines.empty());
  for (const ExposedLine& line : lines) {
    EXPECT_LE(line.exposed, line.total) << line.name;
    EXPECT_GE(line.exposed.count(), 0) << line.name;
  }
  const auto all_reduce = std::ranges::find_if(lines, [&](const ExposedLine& line) {
    return result.graph->works[static_cast<size_t>(line.work)].axis == Axis::tp;
  });
  ASSERT_NE(all_reduce, lines.end());
  EXPECT_EQ(all_reduce->exposed, all_reduce->total);
  EXPECT_EQ(all_reduce->total.count() % (all_reduce->runs), 0);
}

TEST(Exposed, OfWorksIsThatOfTheLinesAndStandsBesideTheLinksTheyCross) {
  const Result result = sample_result();
  const std::map<WorkId, Time> by_work = exposed_by_work(result, 0);
  Time all{}, of_lines{};
  for (const auto& [work, exposed] : by_work) all += exposed;
  for (const ExposedLine& line : exposed_lines(result, 0)) of_lines += line.exposed;
  EXPECT_EQ(all, of_lines);
  ASSERT_GT(all.count(), 0);
  LinkLoads loads;
  for (const auto& [work, exposed] : by_work) {
    LinkCrossing& c = loads.crossings.emplace_back();
    c.links = "NVLink";
    c.works = {work};
  }
  loads.crossings.push_back(loads.crossings.front());  // of another axis: counts once
  loads.fullest = {{"NVLink", "a", "b", 1e9, 1, {}}, {"NIC - leaf", "b", "c", 1e9, 1, {}}};
  const CellTable table = fullest_table(loads, result.step_time, by_work);
  EXPECT_EQ(table.rows[0].back(), "exposed, s");
  EXPECT_NEAR(std::stod(table.rows[1].back()), to_seconds(all), 1e-3);
  EXPECT_EQ(std::stod(table.rows[2].back()), 0);
}

// A send to the next stage and one to the first may have one name and different links.
TEST(Exposed, OneNameOverSeveralLinksHasALineForEach) {
  Result result = sample_result();
  auto graph = std::make_shared<OpGraph>(*result.graph);
  auto prices = std::make_shared<Prices>(*result.prices);
  ASSERT_EQ(graph->rendezvous.size(), 4u);  // two each way
  for (Rendezvous& rendezvous : graph->rendezvous) rendezvous.label = graph->rendezvous[0].label;
  graph->rendezvous[3].work = static_cast<WorkId>(graph->works.size());
  graph->works.push_back(graph->works[static_cast<size_t>(graph->rendezvous[2].work)]);
  prices->by_work.push_back(prices->by_work[static_cast<size_t>(graph->rendezvous[2].work)]);
  prices->by_work.back().crosses_nodes = true;
  result.graph = graph;
  result.prices = prices;
  std::vector<bool> crosses;
  for (const ExposedLine& line : exposed_lines(result, 0)) {
    if (graph->works[static_cast<size_t>(line.work)].axis != Axis::pp) continue;
    EXPECT_EQ(line.runs, 1);
    crosses.push_back(prices->by_work[static_cast<size_t>(line.work)].crosses_nodes);
  }
  EXPECT_THAT(crosses, ::testing::UnorderedElementsAre(false, true));
}

TEST(Gantt, DrawsALineForEachRankUpToALimit) {
  const Result result = sample_result();
  const auto ranks = [&](size_t most) {
    const std::string svg = gantt_svg(result, most);
    size_t n = 0;
    for (uint32_t role = 0; role < 2; ++role)
      n += count_of(svg, '>' + role_name(result, role) + '<');
    return n;
  };
  EXPECT_EQ(ranks(32), 2u);
  EXPECT_EQ(ranks(1), 1u);
  EXPECT_EQ(gantt_svg(empty_result()), "");
}

// Times of passes that repeat are nothing new.
TEST(StepData, RepeatedPassesCostAlmostNothing) {
  const std::string data = step_data(sample_result());
  EXPECT_LT(deflated(data).size(), 2500u);
  EXPECT_THAT(data, HasSubstr("\"labels\":["));
}

}  // namespace
}  // namespace stepcast::page_test
