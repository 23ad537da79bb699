// SPDX-License-Identifier: Apache-2.0
// Any bytes are a cost table or an InputError; what was read can be written, fitted and read again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "calibrate/cost_table.h"
#include "calibrate/fit_table.h"
#include "calibrate/write_table.h"
#include "sim/check.h"
#include "sim/diagnostic.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stepcast;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    CostTable::parse(text, "fuzz.csv");
  } catch (const InputError&) {  // the other legal outcome
  }
  try {
    // Changed bytes hardly ever fit their checksums: past them too.
    const TableText table = parse_table_text(text, "fuzz.csv", {.accept_edits = true});
    CostTable::of(table);
    const std::string written = write_table(fit_table(table).table);
    STEPCAST_CHECK(write_table(parse_table_text(written, "written.csv")) == written,
                   "what was written reads back");
  } catch (const InputError&) {
  }
  return 0;
}
