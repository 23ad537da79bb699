// SPDX-License-Identifier: Apache-2.0
// What is read can be written, fitted, united with itself and read again.
#include "calibrate/table/cost_table.h"

#include <array>
#include <string>

#include "calibrate/fit/fit_table.h"
#include "calibrate/plan/plan_text.h"
#include "calibrate/table/table_diff.h"
#include "calibrate/table/unite.h"
#include "calibrate/table/write_table.h"
#include "scenarios/pricing_table.h"
#include "sim/check.h"
#include "tests/fuzz/readers.h"

namespace stepcast::fuzz {
namespace {

// Changed bytes hardly ever fit their checksums: past them.
void read_edited(std::string_view text) {
  const TableText table = parse_table_text(text, "fuzz.csv", TableFile::edited);
  CostTable::of(table);
  const TableText fitted = fit_table(table).table;
  const std::string written = write_table(fitted);
  const TableText again = parse_table_text(written, "written.csv");
  STEPCAST_CHECK(write_table(again) == written, "what was written reads back: " + written);
  const TableDifference d = difference(fitted, again);
  STEPCAST_CHECK(d.only_before.empty() && d.only_after.empty(), "a table differs from itself");
  unite(std::array{table, table});
}

void read_plan(std::string_view text) {
  const std::string written = write_plan(parse_plan_text(text, "fuzz.csv"));
  STEPCAST_CHECK(write_plan(parse_plan_text(written, "written.csv")) == written, written);
}

}  // namespace

void cost_table(std::string_view text) {
  takes([&] { read_calibration(std::string(text), "fuzz.csv", Gpu{}); });
  takes([&] { read_edited(text); });
  takes([&] { read_plan(text); });
}

}  // namespace stepcast::fuzz
