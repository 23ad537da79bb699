// SPDX-License-Identifier: Apache-2.0
// Records of measured training runs, as files hold them (calibrate/runs/records/README.md has their
// keys).
//
// A file is YAML (or JSON): `source:` says who published the runs, `records:` lists them.  A record
// has id, hardware, model, parallelism, batch, precision, recompute, software and what was
// `measured`; `derived` is arithmetic on that, `assumed` names what the source does not print.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/document/value.h"

namespace stepcast {

struct RunRecord {
  std::string id;       // "runs.yaml:12" if it has none
  std::string source;   // stem of the file, "zero_bubble"; with its folder if others have that too
  std::string group;    // runs of one sweep have the same; "" = none
  Value value;          // all of it
  std::string problem;  // "runs.yaml:12:3: E126 ...": why it is no record; "" = it is one
};

struct RunRecords {
  std::vector<RunRecord> records;
  std::vector<std::string> problems;  // of files, "runs.yaml:1:9: E110 ..."
};

// The whole of a file.  Throws InputError (E101) if it cannot be read.
std::string read_text_file(const std::string& path);

// Of files, and of all *.yaml, *.yml and *.json of folders, in order of their names.  What cannot
// be read, or is no such file, is a problem; the others are read all the same.  A file that is
// named twice is read once; a record with the id of one before it is none.
RunRecords read_run_records(const std::vector<std::string>& paths);
// Of a text; `name` appears in messages.  Throws InputError if it holds no list of records.
std::vector<RunRecord> parse_run_records(const std::string& text, const std::string& name);

// What stands at a dotted path, "hardware.gpu"; nullptr for nothing or null.
const Value* find_at(const Value& record, std::string_view path);
// A scalar as written; "" if there is none.
std::string text_at(const Value& record, std::string_view path);
// nullopt if there is none, or no number.
std::optional<double> number_at(const Value& record, std::string_view path);
std::optional<int64_t> whole_at(const Value& record, std::string_view path);
bool true_at(const Value& record, std::string_view path);

// The whole number a text begins with, "2048 or the default" -> 2048, "128k" -> 128000.
std::optional<int64_t> leading_whole(std::string_view text);

}  // namespace stepcast
