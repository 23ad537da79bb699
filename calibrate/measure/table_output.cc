// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/table_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "calibrate/table/table_text.h"
#include "calibrate/table/write_table.h"
#include "sim/check.h"
#include "sim/diagnostic.h"
#include "sim/text.h"

namespace stepcast::measure {
namespace {

[[noreturn]] void fail(const char* code, const std::string& path, std::string message,
                       std::string help = {}) {
  Diagnostic d;
  d.code = code;
  d.message = std::move(message);
  d.file = path;
  d.help = std::move(help);
  throw InputError(std::move(d));
}

[[noreturn]] void fail_to_write(const std::string& path, int error) {
  fail("E502", path, std::string("cannot be written: ") + std::strerror(error));
}

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) fail("E502", path, "cannot be read");
  return text;
}

void write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_to_write(path, errno);
    text.remove_prefix(static_cast<size_t>(n));
  }
  if (::fsync(fd) != 0 && errno != EINVAL && errno != EROFS) fail_to_write(path, errno);
}

// A file that holds `text` as soon as it has its name.
void replace_file(const std::string& path, std::string_view text) {
  const std::string temporary = path + ".new";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) fail_to_write(path, errno);
  try {
    write_all(fd, text, path);
  } catch (...) {
    ::close(fd);
    ::unlink(temporary.c_str());
    throw;
  }
  ::close(fd);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) fail_to_write(path, errno);
}

// Without row count and checksums, which rows to come would make wrong.
std::string unfinished_text(const TableText& table) {
  std::string out;
  const std::string text = write_table(table);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    if (!line.starts_with("# rows: ") && !line.starts_with("# checksum: ")) {
      out += line;
      out += '\n';
    }
    at = end + 1;
  }
  return out;
}

}  // namespace

TableOutput::TableOutput(std::string path, const TableText& header) : path_(std::move(path)) {
  STEPCAST_CHECK(!header.sources.empty(), "rows need a source");
  source_ = header.sources[0].key;
  text_ = unfinished_text(header);
  if (path_ == "-") return;
  partial_ = path_ + ".partial";
  take_up(header);
  replace_file(partial_, text_);
  fd_ = ::open(partial_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd_ < 0) fail_to_write(partial_, errno);
}

TableOutput::~TableOutput() {
  if (fd_ >= 0) ::close(fd_);
}

void TableOutput::take_up(const TableText& header) {
  std::string from = partial_;
  std::optional<std::string> text = read_file(from);
  const bool unfinished = text.has_value();
  if (unfinished) {
    text->resize(text->rfind('\n') == std::string::npos ? 0 : text->rfind('\n') + 1);
    // A run that ended before its header was there.
    if (text->empty()) return;
  } else {
    from = path_;
    text = read_file(from);
    if (!text) return;
  }
  TableText before =
      parse_table_text(*text, from, unfinished ? TableFile::edited : TableFile::as_written);
  const auto refuse = [&](const std::string& what, const std::string& there,
                          const std::string& here) {
    fail("E310", from, "was measured " + what + " '" + there + "', this is '" + here + "'",
         "write to another file, or remove this one");
  };
  if (before.gpu != header.gpu) refuse("on", before.gpu, header.gpu);
  if (before.software != header.software) refuse("with", before.software, header.software);
  if (before.collectives.empty()) {  // what follows is said of them alone
    before.nvlink_gbs = header.nvlink_gbs;
    before.in_network_reduction = header.in_network_reduction;
  }
  if (before.nvlink_gbs != header.nvlink_gbs) {
    refuse("with nvlink_gbs", exact_text(before.nvlink_gbs), exact_text(header.nvlink_gbs));
  }
  if (before.in_network_reduction != header.in_network_reduction) {
    refuse("with in_network_reduction", before.in_network_reduction ? "yes" : "no",
           header.in_network_reduction ? "yes" : "no");
  }
  for (const TableSource& ours : header.sources) {
    const auto there = std::find_if(before.sources.begin(), before.sources.end(),
                                    [&](const TableSource& s) { return s.key == ours.key; });
    if (there == before.sources.end()) {
      before.sources.push_back(ours);
    } else if (there->text != ours.text) {
      refuse("by", there->text, ours.text);
    } else if (before.collectives.empty()) {
      there->wires = ours.wires;
    } else if (there->wires != ours.wires) {
      refuse("over", text_of(there->wires), text_of(ours.wires));
    }
  }
  for (const std::string& c : header.conditions) before.conditions.push_back(c);
  for (const NamedTime& t : named_times(before)) keys_.insert(t.row);
  // One machine, one kind of wires: keys of points to measure go without them.
  for (const CollectiveRow& r : before.collectives) keys_.insert(row_text(r));
  if (before.interference) keys_.insert("interference");  // two numbers in one row
  text_ = unfinished_text(before);
}

void TableOutput::write_line(std::string_view line) {
  text_ += line;
  text_ += '\n';
  if (fd_ >= 0) write_all(fd_, std::string(line) + '\n', partial_);
}

void TableOutput::append(const SweepPoint& point, const PointResult& measured,
                         std::string_view source) {
  write_line(row_text(point, measured, source.empty() ? std::string_view(source_) : source));
  keys_.insert(point.key);
}

void TableOutput::add_condition(const std::string& line) {
  write_line("# conditions: " + line);
}

std::string TableOutput::finish() {
  TableText table = parse_table_text(text_, partial_, TableFile::edited);
  drop_unused_sources(table);
  std::string text = write_table(table);
  if (partial_.empty()) return text;
  replace_file(path_, text);
  ::unlink(partial_.c_str());
  return {};
}

}  // namespace stepcast::measure
