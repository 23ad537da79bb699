// SPDX-License-Identifier: Apache-2.0
#include "report/diagnostics.h"
#include "sim/check.h"
#include "sim/diagnostic.h"
#include "tests/fuzz/readers.h"

namespace stepcast::fuzz {

void check_refusal(const InputError& e) {
  STEPCAST_CHECK(!e.diagnostics.empty(), "a refusal names a problem");
  const int status = exit_status_of(e.diagnostics);
  STEPCAST_CHECK(status == 2 || status == 4 || status == 7, e.what());
  const std::string text = render_diagnostics(e.diagnostics);
  for (const char c : text)
    STEPCAST_CHECK(c == '\n' || static_cast<unsigned char>(c) >= ' ',
                   "control characters: " + text);
  STEPCAST_CHECK(!diagnostics_json(e.diagnostics).empty(), "a refusal can be shown as JSON");
}

}  // namespace stepcast::fuzz
