// SPDX-License-Identifier: Apache-2.0
// Stores of rows: what is kept is there once and stays, and whatever else a file may be is refused.
#include "scenarios/search/step_store.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "sim/diagnostic.h"
#include "sim/random.h"
#include "sim/results/step_ranking.h"
#include "sim/text.h"
#include "tests/random_cases.h"
#include "tests/temporary_folder.h"

namespace stepcast::step_store_test {
namespace {

namespace fs = std::filesystem;

StepRow row(uint64_t n, const std::string& file = "my.yaml") {
  StepRow r;
  r.key = {splitmix(n), splitmix(n + 1)};
  r.name = "my";
  r.file = file;
  r.settings = "parallel.tp=2 'parallel.layout=E(t|)*3'";
  r.gpu = "H100-SXM";
  r.recompute = "none";
  r.schedule = "1f1b";
  r.step_time_ps = 1'000'000'000'000 + static_cast<int64_t>(n);
  r.peak_bytes = 40'000'000'000;
  r.reserved_bytes = 50'000'000'000;
  r.usable_bytes = 80'000'000'000;
  r.tokens_per_gpu_s = 9'000.25;
  r.mfu = 0.5;
  return r;
}

std::vector<StepRow> rows_of(const std::string& path) {
  std::vector<StepRow> rows;
  read_steps(path, [&](StepRow r) { rows.push_back(std::move(r)); });
  return rows;
}

void make(const std::string& path, uint64_t from, uint64_t to,
          const std::string& file = "my.yaml") {
  StepStore store(path);
  for (uint64_t n = from; n < to; ++n) store.keep(row(n, file));
  store.close();
}

std::string code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& e) {
    EXPECT_FALSE(e.diagnostics.front().message.empty());
    EXPECT_FALSE(e.diagnostics.front().file.empty());
    EXPECT_EQ(exit_status_of(e.diagnostics), 7);
    return e.diagnostics.front().code;
  }
  return "";
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

void change_by_sql(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(db);
  sqlite3_close(db);
}

class Store : public ::testing::Test {
 protected:
  std::string path(const std::string& name = "s.db") const {
    return (folder_.path() / name).string();
  }
  testing::TemporaryFolder folder_;
};

TEST_F(Store, GivesBackWhatWasKept) {
  StepRow whole = row(1), rare = row(2);
  whole.job_tokens = 1'000'000;
  whole.price_usd_per_gpu_h = 2.5;
  rare.step_time_ps.reset();
  rare.reserved_bytes.reset();
  rare.tokens_per_gpu_s.reset();
  rare.mfu.reset();
  rare.stage_layers = "9 9 8 6";
  rare.settings = "a='\" ;--\n\xc3\xa9";
  {
    StepStore store(path());
    EXPECT_TRUE(store.keep(whole));
    EXPECT_TRUE(store.keep(rare));
    store.close();
  }
  std::vector<StepRow> expected{whole, rare};
  std::ranges::sort(expected, {}, &StepRow::key);
  EXPECT_EQ(rows_of(path()), expected);
}

TEST_F(Store, KeepsARowOnceAsItWasSaidLast) {
  StepStore store(path());
  StepRow other = row(1);
  other.settings = "b=2";
  other.price_usd_per_gpu_h = 2.5;
  EXPECT_TRUE(store.keep(row(1)));
  EXPECT_FALSE(store.keep(row(1)));
  EXPECT_TRUE(store.keep(other));
  store.commit();
  EXPECT_FALSE(store.keep(other));
  store.close();
  EXPECT_EQ(rows_of(path()), std::vector{other});
  make(path(), 0, 3);
  EXPECT_EQ(rows_of(path()).size(), 3u);
}

TEST_F(Store, HasNoRowThatItWouldRefuse) {
  const auto changed = [](uint64_t n, const std::function<void(StepRow&)>& change) {
    StepRow r = row(n);
    change(r);
    return r;
  };
  const StepRow good[] = {
      changed(1, [](StepRow& r) { r.usable_bytes = -5'000'000'000; }),
      changed(2, [](StepRow& r) { r.name = std::string(1 << 16, 'x'); }),
  };
  const StepRow bad[] = {
      changed(3, [](StepRow& r) { r.name = std::string(70'000, 'x'); }),
      changed(4, [](StepRow& r) { r.settings = std::string(70'000, 'x'); }),
      changed(5, [](StepRow& r) { r.step_time_ps = 0; }),
      changed(6, [](StepRow& r) { r.mfu = std::nan(""); }),
      changed(7, [](StepRow& r) { r.tokens_per_gpu_s = INFINITY; }),
      changed(8, [](StepRow& r) { r.peak_bytes = -1; }),
      changed(9, [](StepRow& r) { r.tp = 0; }),
      changed(10, [](StepRow& r) { r.joules_per_token = -1; }),
  };
  StepStore store(path());
  for (const StepRow& r : good) EXPECT_TRUE(store.keep(r)) << r.usable_bytes;
  for (const StepRow& r : bad) {
    EXPECT_FALSE(store.keep(r));
    EXPECT_FALSE(store.unite(r));
  }
  store.close();
  EXPECT_THAT(rows_of(path()), ::testing::UnorderedElementsAreArray(good));
}

TEST_F(Store, ReadsWhatItHasNotCommitted) {
  make(path(), 0, 3);
  StepStore store(path());
  store.keep(row(7));
  size_t rows = 0;
  store.read([&](const StepRow&) { ++rows; });
  EXPECT_EQ(rows, 4u);
}

TEST_F(Store, LosesNothingThatWasCommittedWhenItsProcessIsKilled) {
  const pid_t child = ::fork();
  if (child == 0) {
    StepStore store(path());
    for (uint64_t n = 0; n < 50; ++n) store.keep(row(n));
    store.commit();
    for (uint64_t n = 50; n < 70; ++n) store.keep(row(n));
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(rows_of(path()).size(), 50u);
  make(path(), 0, 70);
  EXPECT_EQ(rows_of(path()).size(), 70u);
}

TEST_F(Store, DropsWhatWasNotCommitted) {
  { StepStore(path()).keep(row(1)); }
  EXPECT_TRUE(rows_of(path()).empty());
}

// Wherever SQLite runs out of memory, that is what is said: not that a file is damaged or foreign.
TEST_F(Store, SaysThatMemoryIsOutWhereItIs) {
  make(path(), 0, 20);
  const auto all = rows_of(path()).size();
  const sqlite3_int64 used = sqlite3_memory_used();
  int refused = 0, read = 0;
  for (sqlite3_int64 more = 1; more < (1 << 19) && read == 0; more += 64) {
    sqlite3_hard_heap_limit64(used + more);
    try {
      EXPECT_EQ(rows_of(path()).size(), all) << more;
      ++read;
    } catch (const std::bad_alloc&) {
      ++refused;
    } catch (const InputError& e) {
      ADD_FAILURE() << more << ' ' << e.diagnostics.front().message;
    }
    sqlite3_hard_heap_limit64(0);
  }
  EXPECT_GT(refused, 100);
  EXPECT_EQ(read, 1);
  EXPECT_EQ(rows_of(path()).size(), all);
}

TEST_F(Store, LeavesOneFile) {
  make(path(), 0, 10);
  const auto begin = fs::directory_iterator(folder_.path());
  EXPECT_EQ(std::distance(begin, fs::directory_iterator()), 1);
}

TEST_F(Store, IsOfOneProcess) {
  StepStore first(path());
  first.keep(row(1));
  constexpr std::chrono::milliseconds kNone{0};
  EXPECT_EQ(code_of([&] { StepStore second(path(), kNone); }), "E510");
  EXPECT_EQ(code_of([&] {
              read_steps(
                  path(), [](const StepRow&) {}, kNone);
            }),
            "E510");
  first.close();
  EXPECT_EQ(rows_of(path()).size(), 1u);
}

TEST_F(Store, IsReadByManyAtOnce) {
  make(path(), 0, 3);
  constexpr std::chrono::milliseconds kNone{0};
  size_t inner = 0;
  read_steps(path(), [&](const StepRow&) {
    read_steps(
        path(), [&](const StepRow&) { ++inner; }, kNone);
  });
  EXPECT_EQ(inner, 9u);
}

// What another process reads or ends is waited for.
TEST_F(Store, WaitsForAnotherProcess) {
  auto first = std::make_unique<StepStore>(path());
  first->keep(row(1));
  std::jthread closing([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    first->close();
  });
  EXPECT_EQ(rows_of(path()).size(), 1u);
}

TEST_F(Store, UnitesInAnyOrder) {
  StepRow earlier = row(3, "a.yaml"), later = row(3, "b.yaml");
  later.mfu.reset();
  for (const bool swapped : {false, true}) {
    const std::string name = path(swapped ? "1.db" : "2.db");
    StepStore store(name);
    store.unite(swapped ? later : earlier);
    store.unite(swapped ? earlier : later);
    store.unite(row(4));
    store.close();
    EXPECT_THAT(rows_of(name), ::testing::UnorderedElementsAre(earlier, row(4)));
  }
}

// What is found out only where somebody asks is said by any row of the step, in whatever order.
TEST_F(Store, KeepsTheEnergyThatIsKnown) {
  StepRow silent = row(3, "a.yaml"), asked = row(3, "b.yaml"), both = row(3, "a.yaml");
  asked.joules_per_token = both.joules_per_token = 0.75;
  for (const bool swapped : {false, true}) {
    const std::string name = path(swapped ? "1.db" : "2.db");
    StepStore store(name);
    store.unite(swapped ? asked : silent);
    EXPECT_TRUE(store.unite(swapped ? silent : asked));
    EXPECT_FALSE(store.unite(asked));
    EXPECT_FALSE(store.keep(silent));
    store.close();
    EXPECT_THAT(rows_of(name), ::testing::ElementsAre(both));
    EXPECT_THAT(distinct_steps({swapped ? asked : silent, swapped ? silent : asked}, {}),
                ::testing::ElementsAre(both));
  }
}

TEST_F(Store, RefusesForeignFiles) {
  write(path("text.db"), std::string(5000, 'x'));
  write(path("short.db"), "x");
  change_by_sql(path("other.db"), "CREATE TABLE steps (key TEXT PRIMARY KEY)");
  change_by_sql(path("marked.db"), "PRAGMA application_id=7");
  for (const char* name : {"text.db", "short.db", "other.db", "marked.db"}) {
    const std::string before = text_of(path(name));
    EXPECT_EQ(code_of([&] { StepStore store(path(name)); }), "E511") << name;
    EXPECT_EQ(code_of([&] { rows_of(path(name)); }), "E511") << name;
    EXPECT_EQ(text_of(path(name)), before) << name;
  }
  EXPECT_EQ(code_of([&] { rows_of(path("nothing.db")); }), "E101");
  EXPECT_EQ(code_of([&] { rows_of(folder_.path().string()); }), "E101");
  EXPECT_EQ(code_of([&] { StepStore store(folder_.path().string()); }), "E502");
  EXPECT_EQ(code_of([&] { StepStore store(path("no/folder.db")); }), "E502");
}

TEST_F(Store, RefusesLaterVersions) {
  make(path(), 0, 3);
  change_by_sql(path(), "PRAGMA user_version=4; ALTER TABLE steps ADD COLUMN more REAL");
  EXPECT_EQ(code_of([&] { StepStore store(path()); }), "E512");
  EXPECT_EQ(code_of([&] { rows_of(path()); }), "E512");
}

TEST_F(Store, RefusesEarlierVersions) {
  make(path(), 0, 3);
  change_by_sql(path(), "PRAGMA user_version=2; ALTER TABLE steps DROP COLUMN token_j");
  EXPECT_EQ(code_of([&] { StepStore store(path()); }), "E512");
  EXPECT_EQ(code_of([&] { rows_of(path()); }), "E512");
}

TEST_F(Store, RefusesTruncatedFiles) {
  make(path(), 0, 500);
  const std::string whole = text_of(path());
  ASSERT_GT(whole.size(), 20'000u);
  for (size_t size = 1; size < whole.size(); size += 977) {
    write(path("cut.db"), whole.substr(0, size));
    const std::string code = code_of([&] { rows_of(path("cut.db")); });
    EXPECT_TRUE(code == "E513" || code == "E511") << size << ' ' << code;
    EXPECT_EQ(code_of([&] { StepStore store(path("cut.db")); }), code) << size;
  }
  write(path("empty.db"), "");  // of a process that was killed before its first row
  EXPECT_TRUE(rows_of(path("empty.db")).empty());
}

TEST_F(Store, RefusesWhatItDidNotMake) {
  const char* const changes[] = {
      "CREATE TRIGGER t AFTER INSERT ON steps BEGIN DELETE FROM steps; END",
      "CREATE VIEW v AS SELECT load_extension('x')",
      "CREATE TABLE more (a)",
      "CREATE INDEX i ON steps (tp)",
      "ALTER TABLE steps ADD COLUMN more TEXT",
      "UPDATE steps SET tp = 'many'",
      "UPDATE steps SET tp = 0",
      "UPDATE steps SET name = x'00'",
      "UPDATE steps SET step_time_ps = -1",
      "UPDATE steps SET step_time_ps = 1.5",
      "UPDATE steps SET mfu = 9e999",
      "UPDATE steps SET key = 'KEY'",
      "UPDATE steps SET settings = zeroblob(100000)",
      "UPDATE steps SET settings = printf('%.*c', 100000, 'x')",
  };
  for (const char* sql : changes) {
    fs::remove(path());
    make(path(), 0, 1);
    change_by_sql(path(), sql);
    EXPECT_EQ(code_of([&] { rows_of(path()); }), "E513") << sql;
  }
}

// Bytes changed at random: rows that a step could have, or a refusal; never anything else.
TEST_F(Store, TakesChangedFiles) {
  make(path(), 0, 60);
  const std::string whole = text_of(path());
  int refused = 0;
  const auto cases = static_cast<int>(testing::random_cases(300));
  for (int i = 0; i < cases; ++i) {
    CountedRandom random(static_cast<uint64_t>(i));
    std::string changed = whole;
    for (uint64_t n = 1 + random.below(6); n > 0; --n) {
      // Half of them in the headers, which say how the rest is read.
      const uint64_t range = random.below(2) == 0 ? 400 : changed.size();
      changed[random.below(range)] = static_cast<char>(random.below(256));
    }
    if (random.below(8) == 0) changed.resize(random.below(changed.size()));
    write(path("changed.db"), changed);
    for (const char* more : {"-wal", "-journal"}) fs::remove(path("changed.db") + more);
    const std::string code = code_of([&] {
      for (const StepRow& r : rows_of(path("changed.db"))) EXPECT_GT(r.tp, 0);
      if (i % 16 != 0) return;  // what writes waits for the disk
      StepStore store(path("changed.db"));
      store.keep(row(1000));
      store.close();
    });
    if (!code.empty()) ++refused;
  }
  EXPECT_GT(refused, cases / 4);
}

TEST(StoreFiles, WhereLogsAreWritten) {
  EXPECT_TRUE(is_local_file_system(0xEF53));
  EXPECT_TRUE(is_local_file_system(static_cast<int32_t>(0x9123683E)));  // as 32 bits hold it
  EXPECT_FALSE(is_local_file_system(0x6969));                           // NFS
  EXPECT_FALSE(is_local_file_system(0x0BD00BD0));                       // Lustre
  EXPECT_FALSE(is_local_file_system(0x65735546));                       // FUSE
}

TEST(StoreFiles, AreThoseOfAFolder) {
  const testing::TemporaryFolder folder;
  EXPECT_THROW(store_files(folder.path().string()), InputError);
  EXPECT_THROW(store_files((folder.path() / "no").string()), InputError);
  for (const char* name : {"b.db", "a.db", "c.db-wal", "d.txt"})
    std::ofstream(folder.path() / name) << "x";
  EXPECT_EQ(store_files(folder.path().string()),
            (std::vector{(folder.path() / "a.db").string(), (folder.path() / "b.db").string()}));
  EXPECT_EQ(store_files((folder.path() / "d.txt").string()).size(), 1u);
}

// --------------------------------------------------------------------------------------- ranking

TEST(Ranking, IsThatOfTheRowsInAnyOrder) {
  std::vector<StepRow> rows;
  for (uint64_t n = 0; n < 40; ++n) {
    rows.push_back(row(n));
    rows.back().step_time_ps = static_cast<int64_t>(1 + n % 7);  // many equal ones
    rows.back().reserved_bytes = 1000 - static_cast<int64_t>(n % 11);
  }
  rows.push_back(row(3, "a.yaml"));
  StepRanking ranking;
  const std::vector<StepRow> best = rank_steps(rows, ranking);
  ASSERT_EQ(best.size(), 10u);
  CountedRandom random(1);
  for (int i = 0; i < 20; ++i) {
    for (size_t a = rows.size(); a > 1; --a) std::swap(rows[a - 1], rows[random.below(a)]);
    EXPECT_EQ(rank_steps(rows, ranking), best);
    // Ranked in parts, as those of a store that is larger than memory are.
    const std::vector<StepRow> half(rows.begin(), rows.begin() + 20);
    std::vector<StepRow> two = rank_steps(half, ranking);
    two.insert(two.end(), rows.begin() + 20, rows.end());
    EXPECT_EQ(rank_steps(two, ranking), best);
  }
}

TEST(Ranking, OfAllRowsSaysWhatBecameOfThem) {
  StepRow tight = row(1), deadlock = row(2), wide = row(3), fast = row(4);
  tight.reserved_bytes = tight.usable_bytes;
  tight.step_time_ps = 1;
  deadlock.step_time_ps.reset();
  fast.step_time_ps = *wide.step_time_ps - 1;
  const StoredSteps all = stored_steps({wide, tight, deadlock, fast, wide}, {});
  EXPECT_EQ(all.rows, 4);
  ASSERT_EQ(all.points.rows.size(), 3u);
  EXPECT_EQ(all.points.counted, 2u);
  EXPECT_EQ(all.points.rows[0].key, fast.key);
  EXPECT_EQ(all.points.rows[1].key, wide.key);
  EXPECT_EQ(all.points.rows[2].key, tight.key);
  ASSERT_EQ(all.decided.size(), 3u);
  for (const SearchRule& rule : all.decided)
    EXPECT_EQ(rule.count, rule.name == "fits" ? 2 : 1) << rule.name;
  StepRanking by_price;
  by_price.by = {SearchObjective::price};
  EXPECT_EQ(stored_steps({wide}, by_price).decided.front().name, "unknown");
}

TEST(Ranking, OfPointsTheFirstAreKept) {
  StepPoints points;
  points.rows = {row(1), row(2), row(3)};
  points.counted = 3;
  points.steps = {{"TP", 0}, {"PP", 2}};
  points.keep_first(2);
  EXPECT_EQ(points.rows.size(), 2u);
  EXPECT_EQ(points.counted, 2u);
  EXPECT_EQ(points.left_out, 1u);
  ASSERT_EQ(points.steps.size(), 1u);
  EXPECT_EQ(points.steps[0].axis, "TP");
}

TEST(Ranking, SettingsAreReadBackAsTheyWereWritten) {
  const std::vector<std::string> words{"parallel.tp=2", "name=a b", "it's", ""};
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + shell_word(word);
  EXPECT_EQ(shell_words(text), words);
  EXPECT_TRUE(shell_words("").empty());
}

TEST(Ranking, LeavesOutWhatDoesNotFit) {
  StepRow tight = row(1), deadlock = row(2), wide = row(3);
  tight.reserved_bytes = tight.usable_bytes;
  deadlock.step_time_ps.reset();
  StepRanking ranking;
  EXPECT_EQ(rank_steps({tight, deadlock, wide}, ranking).size(), 1u);
  ranking.memory_margin = 0;
  EXPECT_EQ(rank_steps({tight, deadlock, wide}, ranking).size(), 2u);
  ranking.by = {SearchObjective::price};
  EXPECT_TRUE(rank_steps({wide}, ranking).empty());
  ranking.tokens = 1'000'000;
  ranking.price = 2;
  EXPECT_EQ(rank_steps({wide}, ranking).size(), 1u);
}

TEST(Ranking, ByEnergyHasTheRowsThatSayIt) {
  StepRow much = row(1), little = row(2), silent = row(3);
  much.joules_per_token = 2;
  little.joules_per_token = 1;
  StepRanking ranking;
  ranking.by = {SearchObjective::energy};
  EXPECT_THAT(rank_steps({much, silent, little}, ranking), ::testing::ElementsAre(little, much));
}

TEST(Ranking, DaysAndPriceCountWhatATrainingLoses) {
  StepRow whole = row(1);
  whole.job_tokens = 1'000'000'000;
  whole.price_usd_per_gpu_h = 2;
  StepRow half = whole, endless = whole;
  half.useful_share = 0.5;
  endless.useful_share = 0;
  EXPECT_DOUBLE_EQ(half.days().value(), 2 * whole.days().value());
  EXPECT_DOUBLE_EQ(half.price().value(), 2 * whole.price().value());
  EXPECT_FALSE(endless.days());
  EXPECT_FALSE(endless.price());
  for (StepRow* r : {&whole, &half, &endless}) r->set_step({1, 2});
  EXPECT_NE(whole.key, half.key);
  EXPECT_EQ(half.step(), (Hash128{1, 2}));
}

TEST(Ranking, AStepHasARowForEachPriceWherePricesCount) {
  StepRow cheap = row(1), dear = row(1), plain = row(1);
  const Hash128 step{1, 2};
  cheap.job_tokens = dear.job_tokens = 1'000'000;
  cheap.price_usd_per_gpu_h = 2;
  dear.price_usd_per_gpu_h = 3;
  plain.job_tokens.reset();
  plain.price_usd_per_gpu_h.reset();
  for (StepRow* r : {&cheap, &dear, &plain}) r->set_step(step);
  EXPECT_EQ(plain.key, step);
  EXPECT_EQ(cheap.step(), step);
  EXPECT_NE(cheap.key, dear.key);
  StepRanking ranking;
  EXPECT_EQ(rank_steps({dear, plain, cheap}, ranking).size(), 1u);
  ranking.by = {SearchObjective::price};
  EXPECT_EQ(rank_steps({dear, plain, cheap}, ranking), (std::vector{cheap, dear}));
  // What is said for all is of all, however often they are ranked.
  ranking.tokens = 2'000'000;
  ranking.price = 4;
  std::vector<StepRow> once = rank_steps({dear, cheap}, ranking);
  ASSERT_EQ(once.size(), 1u);
  EXPECT_EQ(once.front().step(), step);
  once.push_back(plain);
  EXPECT_EQ(rank_steps(once, ranking).size(), 1u);
}

TEST(Ranking, FrontHasWhatNothingBeats) {
  std::vector<StepRow> rows;
  for (uint64_t n = 0; n < 5; ++n) {
    rows.push_back(row(n));
    rows.back().step_time_ps = static_cast<int64_t>(10 + n);
    rows.back().reserved_bytes = static_cast<int64_t>(n == 3 ? 2000 : 1000 - n);
  }
  StepRanking ranking;
  ranking.by = {SearchObjective::step_time, SearchObjective::peak_memory};
  ranking.pareto = true;
  ranking.top = 1;
  const std::vector<StepRow> front = rank_steps(rows, ranking);
  ASSERT_EQ(front.size(), 4u);
  for (const StepRow& r : front) EXPECT_NE(r.key, rows[3].key);
}

TEST(ShellWords, AreReadBackByAShell) {
  EXPECT_EQ(shell_word("parallel.tp=2"), "parallel.tp=2");
  EXPECT_EQ(shell_word("a=E(t|)*3"), "'a=E(t|)*3'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace stepcast::step_store_test
