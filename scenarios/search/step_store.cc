// SPDX-License-Identifier: Apache-2.0
#include "scenarios/search/step_store.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "sim/diagnostic.h"
#include "sim/system_error.h"
#include "sim/text.h"

namespace stepcast {
namespace {

namespace fs = std::filesystem;

constexpr int kApplication = 0x53544350;  // "STCP"
constexpr int kVersion = 3;               // of the schema
// A row has some texts of a few hundred bytes.
constexpr size_t kLongestText = 1 << 16;

using Database = std::unique_ptr<sqlite3, int (*)(sqlite3*)>;
using Statement = std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)>;

[[noreturn]] void fail(const std::string& path, const char* code, const std::string& message,
                       std::string help = {}) {
  throw file_error(code, message, path, std::move(help));
}

[[noreturn]] void fail_damaged(const std::string& path, const std::string& what) {
  fail(path, "E513", "the store '" + path + "' is damaged: " + what,
       "move it away and repeat the line, which forecasts again what it held; `sqlite3 " +
           shell_word(path) + " .recover` shows what is left of it");
}

// What SQLite reports, in our words.
[[noreturn]] void fail_with(sqlite3* db, const std::string& path, bool writing) {
  const int code = db != nullptr ? sqlite3_errcode(db) : SQLITE_NOMEM;
  const std::string what = db != nullptr ? sqlite3_errmsg(db) : "out of memory";
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      fail(path, "E510", "another process has the store '" + path + "' open",
           "each process writes a file of its own: --shard gives each its part, --store another "
           "folder; or wait until that one has ended");
    case SQLITE_NOTADB:
      fail(path, "E511", "'" + path + "' is no store of Stepcast",
           "--store names a folder; `stepcast top` and `merge` take the files in it");
    case SQLITE_CORRUPT: fail_damaged(path, what);
    case SQLITE_FULL:
      fail(path, "E502", "cannot write '" + path + "': the disk is full",
           "what was committed is kept: make room and repeat the line");
    case SQLITE_READONLY:
      fail(path, "E502", "cannot write '" + path + "': it is read-only",
           "--store DIR names another");
    case SQLITE_NOMEM: throw std::bad_alloc();
    default:
      fail(path, writing ? "E502" : "E101",
           fmt::format("cannot {} '{}': {}", writing ? "write" : "read", path, what),
           writing ? "what was committed is kept" : "");
  }
}

// ------------------------------------------------------------------------------------- the schema

const char* type_of(const StepColumn& column) {
  return std::visit(
      [](auto member) -> const char* {
        using Pointer = decltype(member);
        if constexpr (std::is_same_v<Pointer, int64_t StepRow::*>) return "INTEGER NOT NULL";
        if constexpr (std::is_same_v<Pointer, std::string StepRow::*>) return "TEXT NOT NULL";
        if constexpr (std::is_same_v<Pointer, std::optional<int64_t> StepRow::*>) return "INTEGER";
        return "REAL";
      },
      column.member);
}

// Exactly as SQLite keeps it in its schema, which is how a store is recognised.
std::string table_text() {
  std::string text = "CREATE TABLE steps (\n  key TEXT NOT NULL PRIMARY KEY";
  for (const StepColumn& c : step_columns()) text += fmt::format(",\n  {} {}", c.name, type_of(c));
  return text + "\n) WITHOUT ROWID";
}

std::string column_names() {
  std::string names = "key";
  for (const StepColumn& c : step_columns()) names += fmt::format(", {}", c.name);
  return names;
}

// What no row of a store has: it is neither kept nor read.
const char* wrong_in(const StepRow& r) {
  for (const int64_t n : {r.gpus, r.nodes, r.tp, r.cp, r.pp, r.vpp, r.ep, r.etp, r.dp,
                          r.micro_batch, r.microbatches, r.global_batch, r.seq})
    if (n < 1) return "a size below 1";
  if (r.zero < 0 || r.zero > 3) return "zero is none of 0 to 3";
  // Nothing may be left of a small GPU: what is usable may be below 0.
  if (r.peak_bytes < 0 || r.reserved_bytes.value_or(0) < 0) return "memory below 0";
  if (r.step_time_ps && *r.step_time_ps <= 0) return "a step that takes no time";
  if (r.job_tokens && *r.job_tokens <= 0) return "a training without tokens";
  for (const std::optional<double>& x :
       {r.tokens_per_gpu_s, r.mfu, r.price_usd_per_gpu_h, r.joules_per_token})
    if (x && (!std::isfinite(*x) || *x < 0)) return "a rate that is no number from 0";
  if (r.useful_share && !(*r.useful_share >= 0 && *r.useful_share <= 1))
    return "a share that is no number from 0 to 1";
  for (const StepColumn& column : step_columns())
    if (const auto* text = std::get_if<std::string StepRow::*>(&column.member))
      if ((r.**text).size() > kLongestText) return "a text of more than 64 KiB";
  return nullptr;
}

// --------------------------------------------------------------------------------------- SQLite

void run(sqlite3* db, const std::string& path, const std::string& sql, bool writing) {
  if (sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    fail_with(db, path, writing);
}

Statement prepare(sqlite3* db, const std::string& path, const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(db, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK)
    fail_with(db, path, false);
  return {statement, sqlite3_finalize};
}

std::string text_at(sqlite3_stmt* s, int column) {
  const unsigned char* text = sqlite3_column_text(s, column);
  // A number is written out, which takes memory.
  if (text == nullptr && sqlite3_errcode(sqlite3_db_handle(s)) == SQLITE_NOMEM)
    throw std::bad_alloc();
  return text != nullptr ? std::string(reinterpret_cast<const char*>(text),
                                       static_cast<size_t>(sqlite3_column_bytes(s, column)))
                         : std::string();
}

// The text of the first column of the first row; nothing if there is no row.
std::optional<std::string> ask(sqlite3* db, const std::string& path, const std::string& sql) {
  const Statement s = prepare(db, path, sql);
  switch (sqlite3_step(s.get())) {
    case SQLITE_ROW: return text_at(s.get(), 0);
    case SQLITE_DONE: return {};
    default: fail_with(db, path, false);
  }
}

// What another process has open may be closed soon: tried again until it is, or for that long.
template <class Open>
auto open_patiently(std::chrono::milliseconds patience, Open open) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    try {
      return open();
    } catch (const InputError& e) {
      if (e.diagnostics.front().code != "E510" || std::chrono::steady_clock::now() >= end) throw;
    }
    std::this_thread::sleep_for(std::min(patience, std::chrono::milliseconds(20)));
  }
}

enum class Access : uint8_t { alone, shared, as_it_lies };

Database open_file(const std::string& path, int flags, Access access) {
  std::string name = path;
  if (access == Access::as_it_lies) {
    name = "file:";
    for (const char c : fs::absolute(path).string())
      name += c == '?' || c == '#' || c == '%'
                  ? fmt::format("%{:02x}", static_cast<unsigned char>(c))
                  : std::string(1, c);
    name += "?immutable=1";
    flags |= SQLITE_OPEN_URI;
  }
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(name.c_str(), &db, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  Database owned(db, sqlite3_close);
  if (code != SQLITE_OK) fail_with(db, path, (flags & SQLITE_OPEN_CREATE) != 0);
  // What a stranger's file may make SQLite do.
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 1 << 24);
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  for (const char* pragma :
       {"trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0", "temp_store=MEMORY",
        access == Access::alone ? "locking_mode=EXCLUSIVE" : "locking_mode=NORMAL"})
    run(db, path, std::string("PRAGMA ") + pragma, false);
  return owned;
}

// Whether a log lies beside the file that says what its content shall be.
bool has_log(const std::string& path) {
  std::error_code error;
  return std::ranges::any_of(std::array{"-wal", "-journal"}, [&](const char* log) {
    const auto size = fs::file_size(path + log, error);
    return !error && size > 0;
  });
}

// What SQLite lets pass: it takes a file of a few bytes for an empty one, and fills up what is cut
// off within a page.
void check_size(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error || size == 0 || has_log(path)) return;
  std::array<unsigned char, 32> header{};
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(header.data()), header.size());
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  if (!std::equal(kMagic.begin(), kMagic.end(), header.begin()))
    fail(path, "E511", "'" + path + "' is no store of Stepcast",
         "--store names a folder; `stepcast top` and `merge` take the files in it");
  const auto number = [&](size_t at, size_t bytes) {
    uint64_t n = 0;
    for (size_t i = 0; i < bytes; ++i) n = n * 256 + header[at + i];
    return n;
  };
  const uint64_t page = number(16, 2) == 1 ? 65536 : number(16, 2);
  if (size != page * number(28, 4))
    fail_damaged(path, fmt::format("it has {} bytes and says {}", size, page * number(28, 4)));
}

// Whether the file is a store.  False: it is empty.  Throws if it is anything else.
bool check_file(sqlite3* db, const std::string& path) {
  check_size(path);
  // The first that reads the file: what is no database, or locked, shows here.
  const std::string objects = *ask(db, path, "SELECT count(*) FROM sqlite_schema");
  const std::string application = *ask(db, path, "PRAGMA application_id");
  const std::string version = *ask(db, path, "PRAGMA user_version");
  if (objects == "0" && application == "0" && version == "0") return false;
  if (application != fmt::to_string(kApplication))
    fail(path, "E511", "'" + path + "' is a database, and no store of Stepcast",
         "--store names a folder of its own");
  int64_t number = 0;
  std::from_chars(version.data(), version.data() + version.size(), number);
  if (number > kVersion)
    fail(path, "E512",
         fmt::format("the store '{}' has version {}, this Stepcast reads up to {}", path, number,
                     kVersion),
         "a newer Stepcast wrote it: use that one, or another folder");
  if (number > 0 && number < kVersion)
    fail(path, "E512",
         fmt::format("the store '{}' has version {}, this Stepcast reads {}", path, number,
                     kVersion),
         "an older Stepcast wrote it: use that one, or repeat the line with another folder");
  const auto schema = ask(db, path, "SELECT sql FROM sqlite_schema WHERE name = 'steps'");
  if (number != kVersion || objects != "1" || !schema || *schema != table_text())
    fail_damaged(path, "its table is not the one that Stepcast makes");
  const auto quick_check = [&] {
    return ask(db, path, "PRAGMA quick_check(1)").value_or("no answer");
  };
  if (quick_check() != "ok") {
    // It calls a page damaged that it had no memory to read, or could not read just then.
    constexpr sqlite3_uint64 kEnoughToCheck = 1 << 20;
    void* room = sqlite3_malloc64(kEnoughToCheck);
    if (room == nullptr) throw std::bad_alloc();
    sqlite3_free(room);
    if (const std::string check = quick_check(); check != "ok") fail_damaged(path, check);
  }
  return true;
}

}  // namespace

bool is_local_file_system(int64_t type) {
  // statfs(2) has the numbers: ext2 to 4, XFS, Btrfs, tmpfs, overlayfs, ZFS, F2FS, ramfs, bcachefs.
  constexpr std::array<int64_t, 9> kLocal{0xEF53,     0x58465342, 0x9123683E,
                                          0x01021994, 0x794c7630, 0x2fc12fc1,
                                          0xF2F52010, 0x858458f6, 0xca451a4e};
  return std::ranges::count(kLocal, type & 0xffffffff) > 0;
}

namespace {

// Nobody else opens it from here on.
Database open_to_write(const std::string& path) {
  Database db = open_file(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, Access::alone);
  if (sqlite3_db_readonly(db.get(), "main") == 1)
    fail(path, "E502", "cannot write '" + path + "': it is read-only", "--store DIR names another");
  struct statfs system {};
  const bool local =
      ::statfs(path.c_str(), &system) == 0 && is_local_file_system(int64_t{system.f_type});
  const bool there = check_file(db.get(), path);
  run(db.get(), path, local ? "PRAGMA journal_mode=WAL" : "PRAGMA journal_mode=TRUNCATE", true);
  run(db.get(), path, "PRAGMA synchronous=FULL; BEGIN EXCLUSIVE", true);
  if (!there)
    run(db.get(), path,
        fmt::format("PRAGMA application_id={}; PRAGMA user_version={}; {}", kApplication, kVersion,
                    table_text()),
        true);
  run(db.get(), path, "COMMIT; BEGIN", true);
  return db;
}

}  // namespace

StepStore::StepStore(std::string path, std::chrono::milliseconds patience)
    : path_(std::move(path)), db_(nullptr, sqlite3_close) {
  db_ = open_patiently(patience, [&] { return open_to_write(path_); });
  std::string marks = "?";
  std::string set, now, other, old, given;
  for (const StepColumn& c : step_columns()) {
    marks += ", ?";
    const char* comma = set.empty() ? "" : ", ";
    if (c.only_if_asked) {
      set += fmt::format("{}{} = ifnull(excluded.{}, steps.{})", comma, c.name, c.name, c.name);
      old += fmt::format("{}steps.{}", comma, c.name);
      given += fmt::format("{}ifnull(excluded.{}, steps.{})", comma, c.name, c.name);
      fill_ = prepare(db_.get(), path_,
                      fmt::format("UPDATE steps SET {} = ?1 WHERE key = ?2 AND {} IS NULL", c.name,
                                  c.name))
                  .release();
      continue;
    }
    set += fmt::format("{}{} = excluded.{}", comma, c.name, c.name);
    // In the order of comes_first(): a missing number before all others, which are not below 0.
    now += fmt::format("{}ifnull({}, -1)", comma, c.name);
    other += fmt::format("{}ifnull(excluded.{}, -1)", comma, c.name);
    old += fmt::format("{}steps.{}", comma, c.name);
    given += fmt::format("{}excluded.{}", comma, c.name);
  }
  const std::string insert =
      "INSERT INTO steps (" + column_names() + ") VALUES (" + marks + ") ON CONFLICT (key) DO ";
  keep_ = prepare(db_.get(), path_,
                  insert + "UPDATE SET " + set + " WHERE (" + old + ") IS NOT (" + given + ")")
              .release();
  unite_ = prepare(db_.get(), path_,
                   insert + "UPDATE SET " + set + " WHERE (" + other + ") < (" + now + ")")
               .release();
}

StepStore::~StepStore() {
  for (sqlite3_stmt* s : {keep_, unite_, fill_}) sqlite3_finalize(s);
}

// What fails once fails for good: a transaction that SQLite has rolled back is not gone on with.
template <class Work>
auto StepStore::attempt(Work work) {
  if (failed_) std::rethrow_exception(failed_);
  try {
    return work();
  } catch (...) {
    failed_ = std::current_exception();
    throw;
  }
}

bool StepStore::insert(const StepRow& row, sqlite3_stmt* s) {
  if (failed_) std::rethrow_exception(failed_);
  if (wrong_in(row) != nullptr) return false;
  const std::string key = hex_of(row.key);
  int at = 0, bound = SQLITE_OK;
  const auto note = [&](int code) {
    if (bound == SQLITE_OK) bound = code;
  };
  const auto text = [&](const std::string& t) {
    note(sqlite3_bind_text(s, ++at, t.data(), static_cast<int>(t.size()), SQLITE_STATIC));
  };
  text(key);
  for (const StepColumn& column : step_columns())
    std::visit(
        [&](auto member) {
          using Pointer = decltype(member);
          const auto& value = row.*member;
          if constexpr (std::is_same_v<Pointer, int64_t StepRow::*>)
            note(sqlite3_bind_int64(s, ++at, value));
          else if constexpr (std::is_same_v<Pointer, std::string StepRow::*>)
            text(value);
          else if (!value)
            note(sqlite3_bind_null(s, ++at));
          else if constexpr (std::is_same_v<Pointer, std::optional<int64_t> StepRow::*>)
            note(sqlite3_bind_int64(s, ++at, *value));
          else
            note(sqlite3_bind_double(s, ++at, *value));
        },
        column.member);
  const int64_t before = sqlite3_total_changes64(db_.get());
  attempt([&] {
    if (bound != SQLITE_OK || sqlite3_step(s) != SQLITE_DONE) {
      // Reset also where it fails, so that nothing holds on to the row; the error stays the same.
      if (bound == SQLITE_OK) sqlite3_reset(s);
      fail_with(db_.get(), path_, true);
    }
  });
  sqlite3_reset(s);
  return sqlite3_total_changes64(db_.get()) > before;
}

bool StepStore::keep(const StepRow& row) {
  return insert(row, keep_);
}

bool StepStore::unite(const StepRow& row) {
  const bool changed = insert(row, unite_);
  if (!row.joules_per_token || wrong_in(row) != nullptr) return changed;
  const std::string key = hex_of(row.key);
  const int64_t before = sqlite3_total_changes64(db_.get());
  attempt([&] {
    if (sqlite3_bind_double(fill_, 1, *row.joules_per_token) != SQLITE_OK ||
        sqlite3_bind_text(fill_, 2, key.data(), static_cast<int>(key.size()), SQLITE_STATIC) !=
            SQLITE_OK ||
        sqlite3_step(fill_) != SQLITE_DONE)
      fail_with(db_.get(), path_, true);
  });
  sqlite3_reset(fill_);
  return changed || sqlite3_total_changes64(db_.get()) > before;
}

void StepStore::commit() {
  attempt([&] { run(db_.get(), path_, "COMMIT; BEGIN", true); });
}

void StepStore::close() {
  attempt([&] { run(db_.get(), path_, "COMMIT", true); });
  for (sqlite3_stmt** s : {&keep_, &unite_, &fill_}) sqlite3_finalize(std::exchange(*s, nullptr));
  // No log is left beside the file, so that it can be read where nothing can be written.
  run(db_.get(), path_, "PRAGMA journal_mode=DELETE", true);
  db_.reset();
}

// ----------------------------------------------------------------------------------------- reading

namespace {

bool is_hex(std::string_view text) {
  return text.size() == 32 &&
         std::ranges::all_of(text, [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); });
}

uint64_t number_of_hex(std::string_view digits) {
  uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  return number;
}

StepRow row_at(sqlite3_stmt* s, const std::string& path) {
  StepRow row;
  const auto wrong = [&](std::string_view what) {
    fail_damaged(path, fmt::format("a row has {}", what));
  };
  const std::string key = text_at(s, 0);
  if (!is_hex(key)) wrong("no key");
  row.key = {number_of_hex(std::string_view(key).substr(0, 16)),
             number_of_hex(std::string_view(key).substr(16))};
  int at = 0;
  for (const StepColumn& column : step_columns()) {
    ++at;
    const int type = sqlite3_column_type(s, at);
    std::visit(
        [&](auto member) {
          using Pointer = decltype(member);
          if constexpr (std::is_same_v<Pointer, std::string StepRow::*>) {
            if (type != SQLITE_TEXT ||
                static_cast<size_t>(sqlite3_column_bytes(s, at)) > kLongestText)
              return wrong("no text where one is due");
            row.*member = text_at(s, at);
          } else if constexpr (std::is_same_v<Pointer, int64_t StepRow::*>) {
            if (type != SQLITE_INTEGER) return wrong("no whole number where one is due");
            row.*member = sqlite3_column_int64(s, at);
          } else if constexpr (std::is_same_v<Pointer, std::optional<int64_t> StepRow::*>) {
            if (type == SQLITE_NULL) return;
            if (type != SQLITE_INTEGER) return wrong("no whole number where one is due");
            row.*member = sqlite3_column_int64(s, at);
          } else {
            if (type == SQLITE_NULL) return;
            if (type != SQLITE_FLOAT) return wrong("no number where one is due");
            row.*member = sqlite3_column_double(s, at);
          }
        },
        column.member);
  }
  if (const char* what = wrong_in(row)) wrong(what);
  return row;
}

// The file as it can be opened: to be written, so that what a killed process left in the log is
// taken over; else as it lies there, if no log says more.
Database open_to_read(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    fail(path, "E101",
         "cannot read '" + path +
             "': " + (error ? system_error_text(error.value()) : "it is no file"));
  // The header says whether rows are written ahead to a log.
  const auto has_wal = [&] {
    std::array<char, 20> header{};
    std::ifstream(path, std::ios::binary).read(header.data(), header.size());
    return header[18] == 2;
  };
  // What has been closed may be read by many at once.  What a killed process left is put in order
  // alone, which also does without the memory that readers of a log share.
  if (::access(path.c_str(), W_OK) == 0 &&
      ::access(fs::absolute(path).parent_path().c_str(), W_OK) == 0)
    return open_file(path, SQLITE_OPEN_READWRITE,
                     has_log(path) || has_wal() ? Access::alone : Access::shared);
  if (has_log(path))
    fail(path, "E101",
         "cannot read '" + path +
             "': what a process that was stopped wrote last stands in a log "
             "beside it, and the file is read-only",
         "copy both to where they can be written");
  // A file that says it has a log cannot be read beside a folder that is read-only, but as it is.
  return open_file(path, SQLITE_OPEN_READONLY, has_wal() ? Access::as_it_lies : Access::shared);
}

}  // namespace

namespace {

void read_rows(sqlite3* db, const std::string& path, const std::function<void(StepRow row)>& take) {
  const Statement s = prepare(db, path, "SELECT " + column_names() + " FROM steps ORDER BY key");
  for (;;) {
    const int code = sqlite3_step(s.get());
    if (code == SQLITE_DONE) return;
    if (code != SQLITE_ROW) fail_with(db, path, false);
    take(row_at(s.get(), path));
  }
}

}  // namespace

void StepStore::read(const std::function<void(StepRow row)>& take) {
  read_rows(db_.get(), path_, take);
}

void read_steps(const std::string& path, const std::function<void(StepRow row)>& take,
                std::chrono::milliseconds patience) {
  bool there = false;
  const Database db = open_patiently(patience, [&] {
    Database opened = open_to_read(path);
    run(opened.get(), path, "BEGIN", false);  // what is checked is what is read
    there = check_file(opened.get(), path);
    return opened;
  });
  if (there) read_rows(db.get(), path, take);
}

std::vector<std::string> store_files(const std::string& folder_or_file) {
  std::error_code error;
  if (!fs::is_directory(folder_or_file, error)) {
    if (!fs::exists(folder_or_file, error))
      fail(folder_or_file, "E101", "there is no store '" + folder_or_file + "'",
           "a folder that --store made, or a file in it");
    return {folder_or_file};
  }
  std::vector<std::string> files;
  for (auto it = fs::directory_iterator(folder_or_file, error);
       !error && it != fs::directory_iterator(); it.increment(error))
    if (it->path().extension() == ".db") files.push_back(it->path().string());
  if (error)
    fail(folder_or_file, "E101",
         "cannot read '" + folder_or_file + "': " + system_error_text(error.value()));
  std::ranges::sort(files);
  if (files.empty())
    fail(folder_or_file, "E101", "there is no store in '" + folder_or_file + "'",
         "`stepcast search` and `sweep` write one there with --store");
  return files;
}

}  // namespace stepcast
