// SPDX-License-Identifier: Apache-2.0
// The table that a measuring run writes: each row is on disk as soon as it is measured, and a run
// that was interrupted goes on where it stopped.
//
// While measuring, rows are appended to TABLE.partial, a table without row count and checksums that
// `stepcast calibrate fit --accept-edits` reads too.  finish() writes TABLE, canonical and under
// its name only when it is complete, and removes the other file.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "calibrate/plan/sweep.h"
#include "calibrate/table/table_text.h"

namespace stepcast::measure {

class TableOutput {
 public:
  // Opens `path` ("-": standard output at the end, nothing on disk).  `header`: gpu, about,
  // software, nvlink_gbs, in_network_reduction and sources, the usual one first, no rows.  Rows of
  // an earlier run are taken up from TABLE.partial, else from TABLE; a last line that was half
  // written is dropped.
  //
  // Throws InputError: E310 the file was measured on another GPU, with other software, or its
  // collectives with another nvlink_gbs or in_network_reduction (`help` says how to go on); E3xx it
  // is no table; E502 it cannot be read or written.
  TableOutput(std::string path, const TableText& header);
  TableOutput(const TableOutput&) = delete;
  TableOutput& operator=(const TableOutput&) = delete;
  ~TableOutput();

  // Whether that row is there already (SweepPoint::key).
  bool has(const std::string& key) const { return keys_.contains(key); }
  int64_t rows() const { return static_cast<int64_t>(keys_.size()); }

  // Appends and syncs.  `source`: one of the header's; empty: the first.  Throws InputError E502.
  void append(const SweepPoint& point, const PointResult& measured, std::string_view source = {});
  void add_condition(const std::string& line);

  // Writes TABLE; to standard output it returns the text.  Throws InputError E502.
  std::string finish();

 private:
  void take_up(const TableText& header);
  void write_line(std::string_view line);

  std::string path_, partial_;  // partial_ empty: nothing on disk
  std::string source_;
  std::string text_;  // what TABLE.partial holds
  std::set<std::string, std::less<>> keys_;
  int fd_ = -1;
};

}  // namespace stepcast::measure
