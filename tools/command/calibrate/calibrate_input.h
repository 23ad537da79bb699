// SPDX-License-Identifier: Apache-2.0
// What `stepcast calibrate` reads: cost tables, shipped or in files, and files of other tools.
#pragma once

#include <string>
#include <vector>

#include "calibrate/import/import_measurements.h"
#include "calibrate/table/table_text.h"
#include "tools/command/command.h"

namespace CLI {
class App;
}

namespace stepcast::cli {

// Options for what files of other tools may leave open.
void add_measurement_options(CLI::App* sub, MeasuredArguments& a);
// Throws InputError E003 if one was given for a file of `kind`, which holds no measurements.
void refuse_measurement_options(const MeasuredArguments& a, const std::string& kind);

struct CalibrateInput {
  std::string name;  // as messages call it
  std::string text;
  TableText table;
  std::vector<std::string> notes;  // what an import did not use
};

// `input` is a file, "-", or the name of a GPU whose table is shipped.  Throws InputError: E101
// there is neither, with status 7; E3xx as parse_table_text says.
CalibrateInput read_table(const std::string& input, bool accept_edits);

// A table, or what another tool wrote: of args.kind if that is given.  Throws InputError: E343
// nothing of that is in it.
CalibrateInput read_measurements(const std::string& input, const Arguments& args);

}  // namespace stepcast::cli
