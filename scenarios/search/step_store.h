// SPDX-License-Identifier: Apache-2.0
// Rows of steps on disk: a SQLite file that one process writes and anybody reads later.
//
// The file has one table, `steps`, with a column for each of step_columns() and the key, 32
// hexadecimal digits.  A row is there once, however often it is kept.  What has been committed
// survives a process that is killed; what has not is as if it had never been kept.
//
// A writer locks its file, so that no other process opens it; what nobody writes may be read by
// many at once.  On a local disk it writes a write-ahead log, elsewhere (NFS, Lustre, ...) a
// rollback journal: such logs need shared memory, which network file systems do not have.  A file
// is read as if a stranger had written it: nothing in its schema is trusted, and whatever is not as
// this program writes it is refused.
//
// Problems are InputErrors:
//   E510 another process writes the file     E512 of a later version of Stepcast
//   E511 it is no store of Stepcast          E513 it is damaged
//   E502 it cannot be written (a full disk, a read-only file)   E101 it cannot be read
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/results/step_row.h"

struct sqlite3;
struct sqlite3_stmt;

namespace stepcast {

// By the type that statfs(2) gives: whether the file system is on this machine.
bool is_local_file_system(int64_t type);

// Longer than anybody reads a file or begins one.
constexpr std::chrono::milliseconds kStorePatience{2000};

class StepStore {
 public:
  // Opens the file for writing; makes it if there is none.  Waits so long for another process.
  explicit StepStore(std::string path, std::chrono::milliseconds patience = kStorePatience);
  StepStore(const StepStore&) = delete;
  StepStore& operator=(const StepStore&) = delete;
  // Drops what was not committed.
  ~StepStore();

  // In place of the row with this key, if there is one: what is not in the key is as it was said
  // last, and what is found out only where somebody asks stays if it is not said anew.  False if
  // the file has this row already, or if nobody could read it back: figures that no step has, a
  // text of more than 64 KiB.
  bool keep(const StepRow& row);
  // The same; of two rows with one key the one that comes first (comes_first()) stays, so that it
  // does not matter which is kept first, with what either says that is found out only where
  // somebody asks.  False if that is the one that was there.
  bool unite(const StepRow& row);
  // What was kept so far is on the disk when this returns.
  void commit();
  // Commits, and leaves one file that can be copied and read without any other.
  void close();

  // Gives each row to `take`, by key, with those that have not been committed.
  void read(const std::function<void(StepRow row)>& take);

  const std::string& path() const { return path_; }

 private:
  bool insert(const StepRow& row, sqlite3_stmt* statement);
  template <class Work>
  auto attempt(Work work);

  std::string path_;
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> db_;
  sqlite3_stmt *keep_ = nullptr, *unite_ = nullptr, *fill_ = nullptr;
  std::exception_ptr failed_;  // the first failure, which all that follows repeats
};

// Gives each row of the file to `take`, by key.  What a killed process left is put in order first,
// if the file can be written.  Waits so long for a process that writes it.
void read_steps(const std::string& path, const std::function<void(StepRow row)>& take,
                std::chrono::milliseconds patience = kStorePatience);

// The stores in a folder, by name; the file itself if it is none.  Throws InputError E101 if it
// does not exist, or a folder has none.
std::vector<std::string> store_files(const std::string& folder_or_file);

}  // namespace stepcast
