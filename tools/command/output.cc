// SPDX-License-Identifier: Apache-2.0
#include "tools/command/output.h"
#include "scenarios/document/config_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>

#include <fmt/format.h>

#include "report/format.h"
#include "sim/diagnostic.h"
#include "sim/system_error.h"
#include "tools/command/command.h"
#include "tools/command/import.h"
#include "tools/command/options.h"
#include "tools/command/search_folder.h"

namespace stepcast::cli {

namespace {

constexpr size_t kLargestScenario = size_t{16} << 20;
constexpr size_t kLargestFile = size_t{256} << 20;
constexpr size_t kBuffer = size_t{1} << 18;

[[noreturn]] void io_error(const char* code, std::string message, std::string file = {},
                           std::string help = {}) {
  throw file_error(code, std::move(message), std::move(file), std::move(help));
}

// 0, or errno.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

// Appends what `fd` has to `text`, until that is longer than `most`.  0, or errno.
int read_up_to(int fd, size_t most, std::string& text) {
  while (text.size() <= most) {
    const size_t old = text.size();
    text.resize(old + kBuffer);
    const ssize_t n = ::read(fd, text.data() + old, kBuffer);
    const int error = n < 0 ? errno : 0;
    text.resize(old + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (error != 0 && error != EINTR) return error;
    if (n == 0) break;
  }
  return 0;
}

[[noreturn]] void refuse_size(const std::string& what, size_t most, const std::string& file) {
  throw file_error("E106", fmt::format("{} is larger than {} MiB", what, most >> 20), file);
}

// All of standard input.  Kept, because a command may ask for it again, and for more of it.
const std::string& standard_input_up_to(size_t most) {
  static std::string text;
  if (const int error = read_up_to(STDIN_FILENO, most, text); error != 0)
    io_error("E500", "cannot read standard input: " + system_error_text(error));
  if (text.size() > most) refuse_size("standard input", most, "<stdin>");
  return text;
}

// Where a path leads after symbolic links; the path itself if nothing is there.
std::string resolved(const std::string& path) {
  std::array<char, PATH_MAX> buffer;
  return ::realpath(path.c_str(), buffer.data()) != nullptr ? std::string(buffer.data()) : path;
}

constexpr std::array kEndingSignals{SIGINT, SIGTERM, SIGHUP};

// The files that a signal which ends the process removes: all that a signal handler may know.
std::array<std::array<char, PATH_MAX>, kMostTemporaryFiles> temporary_files{};
volatile std::sig_atomic_t temporary_count = 0;

// The process then ends as if the signal had not been caught: with status 128 + number in a shell.
void remove_temporary_and_end(int signal) {
  remove_temporary_files();
  std::signal(signal, SIG_DFL);
  ::raise(signal);  // delivered when this returns
}

void remember_temporary(std::span<const std::string> paths) {
  temporary_count = 0;
  int count = 0;
  for (const std::string& path : paths.first(std::min(paths.size(), temporary_files.size())))
    if (path.size() < PATH_MAX)
      std::memcpy(temporary_files[static_cast<size_t>(count++)].data(), path.c_str(),
                  path.size() + 1);
  temporary_count = count;
  for (const int signal : kEndingSignals) {
    struct sigaction before {};
    if (::sigaction(signal, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_handler = remove_temporary_and_end;
    ::sigaction(signal, &action, nullptr);
  }
}

void forget_temporary() {
  temporary_count = 0;
}

// No signal that ends the process arrives meanwhile.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t ending;
    sigemptyset(&ending);
    for (const int signal : kEndingSignals) sigaddset(&ending, signal);
    ::pthread_sigmask(SIG_BLOCK, &ending, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

mode_t current_umask() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mask;
}

}  // namespace

void prepare_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) != -1) continue;
    // The lowest free descriptor is `fd`.  Standard output becomes unwritable, as it was.
    if (::open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR) < 0) std::_Exit(kExitIo);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

const std::string& standard_input() {
  return standard_input_up_to(kLargestScenario);
}

std::string read_whole_file(const std::string& path) {
  if (path == "-") return standard_input_up_to(kLargestFile);
  const auto fail = [&](int error) {
    io_error("E101", "cannot read '" + path + "': " + system_error_text(error), path);
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) fail(errno);
  struct stat status {};
  // A file says how large it is before it is read; a pipe does not.
  const bool known = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  const bool large = known && static_cast<size_t>(status.st_size) > kLargestFile;
  std::string text;
  const int error = large ? 0 : read_up_to(fd, kLargestFile, text);
  ::close(fd);
  if (error != 0) fail(error);
  if (large || text.size() > kLargestFile) refuse_size('\'' + path + '\'', kLargestFile, path);
  return text;
}

void write_bytes_to_stdout(std::string_view bytes) {
  const int error = write_all(STDOUT_FILENO, bytes);
  if (error == EPIPE) throw ClosedPipe{};
  if (error != 0) io_error("E503", "cannot write to standard output: " + system_error_text(error));
}

void write_stdout(std::string_view text) {
  write_bytes_to_stdout(terminal_text(text));
}

void write_stderr(std::string_view text) noexcept try {
  write_all(STDERR_FILENO, terminal_text(text));
} catch (const std::bad_alloc&) {  // then there is nothing to say it with
}

void draw_on_stderr(std::string_view text) noexcept {
  write_all(STDERR_FILENO, text);
}

void draw_on_stdout(std::string_view text) noexcept {
  write_all(STDOUT_FILENO, text);
}

void remove_temporary_files() noexcept {
  for (int i = 0; i < temporary_count; ++i)
    ::unlink(temporary_files[static_cast<size_t>(i)].data());
}

TemporaryFiles::TemporaryFiles(std::vector<std::string> paths) : paths_(std::move(paths)) {
  remember_temporary(paths_);
}

TemporaryFiles::~TemporaryFiles() {
  for (const std::string& path : paths_) ::unlink(path.c_str());
  forget_temporary();
}

OutputFile::OutputFile(std::string path, bool force) : path_(std::move(path)), force_(force) {
  struct stat status {};
  if (::stat(path_.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) fail(EISDIR);
    if (!S_ISREG(status.st_mode)) {
      fd_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
      if (fd_ < 0) fail(errno);
      return;
    }
    refuse_existing(path_, force_);
    path_ = resolved(path_);
  } else if (errno != ENOENT) {
    fail(errno);
  }
  open_temporary();
}

void OutputFile::open_temporary() {
  const size_t slash = path_.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path_.substr(0, slash + 1);
  temporary_ = folder + ".stepcast-XXXXXX";
  {
    const SignalsBlocked blocked;  // until the handler knows the name
    fd_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
    if (fd_ >= 0) remember_temporary({&temporary_, 1});
  }
  if (fd_ < 0) {
    const int error = errno;
    temporary_.clear();
    fail(error);
  }
  if (::fchmod(fd_, 0666 & ~current_umask()) != 0) fail(errno);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  remove_temporary();
}

void OutputFile::remove_temporary() {
  if (temporary_.empty()) return;
  ::unlink(temporary_.c_str());
  forget_temporary();
  temporary_.clear();
}

void OutputFile::fail(int error) {
  // The destructor of a constructor that throws does not run.
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  remove_temporary();
  if (error == EPIPE) throw ClosedPipe{};
  io_error("E502", "cannot write '" + path_ + "': " + system_error_text(error), path_);
}

void OutputFile::write(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() >= kBuffer) flush();
}

void OutputFile::flush() {
  const int error = write_all(fd_, buffer_);
  buffer_.clear();
  if (error != 0) fail(error);
}

void OutputFile::commit() {
  flush();
  const bool direct = temporary_.empty();
  if (!direct && ::fsync(fd_) != 0) fail(errno);
  const int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0) fail(errno);
  if (direct) return;
  // Without --force a file that appeared meanwhile is left alone: link() does not replace.
  if (force_) {
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(errno);
  } else {
    if (::link(temporary_.c_str(), path_.c_str()) != 0) fail(errno);
    ::unlink(temporary_.c_str());
  }
  forget_temporary();
  temporary_.clear();
}

void refuse_existing(const std::string& path, bool force) {
  struct stat status {};
  if (!force && ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode))
    io_error("E501", "'" + path + "' exists already", path, "--force overwrites it");
}

bool writes_files(const Arguments& args) {
  return !(args.output.empty() && args.html.empty() && args.svg.empty() && args.trace.empty());
}

void refuse_overwriting(std::span<const std::string> read, const Arguments& args) {
  namespace fs = std::filesystem;
  std::error_code none;  // of a file that is not there: it is no other
  for (const std::string* output : {&args.output, &args.html, &args.svg, &args.trace}) {
    if (output->empty() || *output == "-") continue;
    const bool folder = fs::is_directory(*output, none);
    for (const std::string& file : read) {
      if (!fs::is_regular_file(file, none)) continue;
      const fs::path name = fs::path(file).filename();
      const fs::path written =
          folder && is_of_search_folder(name.string()) ? *output / name : fs::path(*output);
      if (fs::equivalent(file, written, none))
        io_error("E502", "cannot write '" + written.string() + "': the command reads it",
                 written.string(), "another name");
    }
  }
}

void refuse_overwriting(const Arguments& args) {
  if (!writes_files(args)) return;
  std::vector<std::string> read = args.files;
  read.insert(read.end(), args.given.begin(), args.given.end());
  for (const std::string* file : {&args.log, &args.calibrate.plan, &args.schedule.stages})
    read.push_back(*file);
  for (const std::string* file : {&args.file, &args.model}) read.push_back(config_in(*file));
  std::error_code none;
  if (!args.store.empty())
    for (std::filesystem::directory_iterator kept(args.store, none), end; kept != end && !none;
         kept.increment(none))
      read.push_back(kept->path().string());
  for (const std::string& axis : args.axes)  // calibration=own.csv,other.csv
    for (const std::string_view value :
         split(std::string_view(axis).substr(axis.find('=') + 1), ','))
      read.emplace_back(value);
  refuse_overwriting(read, args);
}

void deliver(std::string_view text, const std::string& path, bool force) {
  if (path.empty() || path == "-")
    return ::isatty(STDOUT_FILENO) != 0 ? write_stdout(text) : write_bytes_to_stdout(text);
  OutputFile file(path, force);
  file.write(text);
  file.commit();
}

namespace {

// "[##########----------] 10/20 replicas, 3 s left"; no more than 80 columns.
std::string progress_bar(int64_t done, int64_t total, const std::string& what, double seconds) {
  constexpr int64_t kWidth = 30;
  const int64_t filled = total > 0 ? done * kWidth / total : 0;
  std::string s =
      fmt::format("[{}{}] {}/{} {}", std::string(static_cast<size_t>(filled), '#'),
                  std::string(static_cast<size_t>(kWidth - filled), '-'), done, total, what);
  if (done == 0 || done >= total) return s;
  const double left = seconds * static_cast<double>(total - done) / static_cast<double>(done);
  return fmt::format("{}, {} s left", s, static_cast<int64_t>(left + 0.5));
}

}  // namespace

ProgressLine::ProgressLine(ProgressStyle style, std::string what) : what_(std::move(what)) {
  silent_ = style == ProgressStyle::none;
  bar_ = style == ProgressStyle::automatic && ::isatty(STDERR_FILENO) != 0;
}

ProgressLine::~ProgressLine() {
  if (drawn_) draw_on_stderr("\r\x1b[K");
}

void ProgressLine::show(int64_t done, int64_t total) {
  if (silent_ || done >= total) return;
  const Clock::time_point now = Clock::now();
  const auto pause = bar_ ? std::chrono::milliseconds(100) : std::chrono::seconds(30);
  if (now - last_ < pause) return;
  last_ = now;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const std::string text = progress_bar(done, total, what_, seconds);
  if (bar_)
    draw_on_stderr('\r' + text + "\x1b[K");
  else
    write_stderr(text + '\n');
  drawn_ = bar_;
}

}  // namespace stepcast::cli
