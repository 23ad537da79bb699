// SPDX-License-Identifier: Apache-2.0
#include "tools/import_measured.h"

#include "calibrate/import_measurements.h"
#include "calibrate/write_table.h"
#include "report/json_writer.h"
#include "tools/calibrate_input.h"
#include "tools/output.h"

namespace stepcast::cli {
namespace {

size_t rows_of(const TableText& t) {
  return t.gemms.size() + t.attentions.size() + t.memories.size() + t.collectives.size() +
         t.copies.size();
}

std::string as_json(const std::string& table, const CalibrateInput& in) {
  JsonWriter json;
  json.begin_object();
  json.member("table", table);
  json.key("notes");
  json.begin_array();
  for (const std::string& note : in.notes) json.value(note);
  json.end_array();
  json.end_object();
  return json.text() + '\n';
}

}  // namespace

bool is_measured_kind(const std::string& kind) {
  for (const std::string_view k : measurement_kinds())
    if (k == kind) return true;
  return false;
}

std::string measured_kinds() {
  std::string names;
  for (const std::string_view k : measurement_kinds())
    names += (names.empty() ? "" : ", ") + std::string(k);
  return names;
}

int import_measured_command(const Arguments& args) {
  CalibrateArguments a = args.calibrate;
  a.kind = args.import.kind;
  a.gpu = args.import.gpu;
  const CalibrateInput in = read_measurements(args.import.file, a);
  const std::string table = write_table(in.table);
  if (args.json) {
    write_stdout(as_json(table, in));
    return 0;
  }
  deliver(table, args.import.output, args.force);
  if (args.quiet) return 0;
  std::string remarks;
  for (const std::string& note : in.notes) remarks += "note: " + note + '\n';
  write_stderr(remarks + "imported " + std::to_string(rows_of(in.table)) + " rows for " +
               in.table.gpu + '\n');
  return 0;
}

}  // namespace stepcast::cli
