// SPDX-License-Identifier: Apache-2.0
// To each importer; what is taken can be written and read back.
#include <string>
#include <vector>

#include "calibrate/import/import_measurements.h"
#include "calibrate/table/write_table.h"
#include "sim/check.h"
#include "sim/diagnostic.h"
#include "tests/fuzz/readers.h"

namespace stepcast::fuzz {

void measurements(std::string_view text) {
  MeasurementOptions options;
  options.gpu = "h100-sxm";
  options.nic_gbs = 50;
  options.network = NicDriver::verbs;
  options.dtype = "bf16";
  std::vector<std::string> kinds{""};
  for (const std::string_view kind : measurement_kinds()) kinds.emplace_back(kind);
  for (const std::string& kind : kinds) {
    options.kind = kind;
    std::string written;
    try {
      std::vector<std::string> notes;
      written = write_table(import_measurements(text, "fuzz", options, &notes));
    } catch (const InputError& e) {
      check_refusal(e);
      continue;
    }
    try {
      STEPCAST_CHECK(write_table(parse_table_text(written, "written")) == written, written);
    } catch (const InputError& e) {
      STEPCAST_CHECK(false, std::string(e.what()) + "\nwritten:\n" + written);
    }
  }
}

}  // namespace stepcast::fuzz
