// SPDX-License-Identifier: Apache-2.0
// Reading standard input, writing results and how far a long command is: nothing is ever half
// written, and no control character that a file brought along reaches the terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/command/command.h"

namespace stepcast::cli {

// The reader of standard output went away (a closed pipe): exit status 7 without a word.
struct ClosedPipe : std::exception {};

// Makes sure that descriptors 0 to 2 are open, so that no file is taken for standard output, and
// that a closed pipe or a file size limit is an error of write() instead of a signal.  Call first.
void prepare_standard_streams();

// A scenario from standard input, read once (and given again when asked again).  Throws InputError:
// E106 if it has more than 16 MiB, E500, status 7, if it cannot be read.
const std::string& standard_input();

// All of a file that is no scenario; standard input for "-".  Throws InputError: E106 if it has
// more than 256 MiB, E101 or E500, status 7, if it cannot be read.
std::string read_whole_file(const std::string& path);

// What the command says.  Whatever found its way into `text`, no control character but colours, no
// character that reorders or hides text and no invalid UTF-8 is written (terminal_text).
// Throws ClosedPipe, or InputError E503.
void write_stdout(std::string_view text);
// Failures are ignored: there is nowhere to report them.
void write_stderr(std::string_view text) noexcept;
// As it stands, cursor movements included, and without taking memory; failures are ignored.
void draw_on_stderr(std::string_view text) noexcept;
void draw_on_stdout(std::string_view text) noexcept;

// A file that appears under its name only when it is complete: written beside it, synced, renamed.
// Devices and pipes are written directly.  Every failure is an InputError: E501 the file exists
// (and not `force`), E502 anything else.  A signal that ends the process (INT, TERM, HUP) removes
// what was written.  REQUIRES: one at a time.
class OutputFile {
 public:
  OutputFile(std::string path, bool force);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();  // without commit(): removes what was written

  void write(std::string_view bytes);
  void commit();

 private:
  [[noreturn]] void fail(int error);
  void flush();
  void open_temporary();
  void remove_temporary();

  std::string path_, temporary_;  // temporary_ empty: written directly
  std::string buffer_;
  int fd_ = -1;
  bool force_ = false;
};

// Files beside an output that a library writes by itself: removed at the end, and by a signal that
// ends the process.  REQUIRES: at most kMostTemporaryFiles; no OutputFile meanwhile.
constexpr size_t kMostTemporaryFiles = 4;
class TemporaryFiles {
 public:
  explicit TemporaryFiles(std::vector<std::string> paths);
  TemporaryFiles(const TemporaryFiles&) = delete;
  TemporaryFiles& operator=(const TemporaryFiles&) = delete;
  ~TemporaryFiles();

 private:
  std::vector<std::string> paths_;
};

// What is being written, if there is anything: for who ends the process at once.
void remove_temporary_files() noexcept;

// What OutputFile says of a file that is there and must not be overwritten, before there is
// anything to write.  Throws InputError E501.
void refuse_existing(const std::string& path, bool force);

// Whether the command line names an output: --output, --html, --svg, --trace.
bool writes_files(const Arguments& args);
// No command replaces what it reads: an output that is one of these files is refused, with or
// without --force, as is a folder (--out) whose answer of an earlier search has one of them. Throws
// InputError E502.
void refuse_overwriting(std::span<const std::string> read, const Arguments& args);
// The same for the files that the command line names.
void refuse_overwriting(const Arguments& args);

// To a new file of that name; to standard output for "" and "-", there byte by byte as well unless
// it is a terminal.
void deliver(std::string_view text, const std::string& path, bool force);

// --- How far a long command is, on standard error

// automatic: a bar that is drawn anew ten times a second if standard error is a terminal, else a
// line every 30 seconds; plain: always such lines; none: nothing.
class ProgressLine {
 public:
  // `what` names what is counted: "replicas".
  ProgressLine(ProgressStyle style, std::string what);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();  // wipes the bar

  void show(int64_t done, int64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  bool silent_ = false, bar_ = false, drawn_ = false;
  Clock::time_point begin_ = Clock::now(), last_ = begin_;
};

}  // namespace stepcast::cli
