// SPDX-License-Identifier: Apache-2.0
#include "tools/progress.h"

#include <unistd.h>

#include "tools/options.h"
#include "tools/output.h"

namespace stepcast::cli {
namespace {

// "[##########----------] 10/20 replicas, 3 s left"; no more than 80 columns.
std::string progress_bar(int64_t done, int64_t total, const std::string& what, double seconds) {
  constexpr int64_t kWidth = 30;
  const int64_t filled = total > 0 ? done * kWidth / total : 0;
  std::string s = '[' + std::string(static_cast<size_t>(filled), '#') +
                  std::string(static_cast<size_t>(kWidth - filled), '-') + "] " +
                  std::to_string(done) + '/' + std::to_string(total) + ' ' + what;
  if (done == 0 || done >= total) return s;
  const double left = seconds * static_cast<double>(total - done) / static_cast<double>(done);
  return s + ", " + std::to_string(static_cast<int64_t>(left + 0.5)) + " s left";
}

}  // namespace

ProgressLine::ProgressLine(const std::string& style, std::string what) : what_(std::move(what)) {
  parse_word("--progress", style, {"auto", "plain", "none"});
  silent_ = style == "none";
  bar_ = style == "auto" && ::isatty(STDERR_FILENO) != 0;
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
