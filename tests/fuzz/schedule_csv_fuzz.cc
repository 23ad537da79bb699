// SPDX-License-Identifier: Apache-2.0
// Any bytes are a schedule or an InputError, and a schedule survives being written and read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "schedules/custom_schedule.h"
#include "sim/diagnostic.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const stepcast::Schedule schedule = stepcast::read_schedule_csv(text, "fuzz.csv");
    const std::string written = stepcast::write_schedule_csv(schedule);
    if (stepcast::write_schedule_csv(stepcast::read_schedule_csv(written, "again")) != written) {
      std::abort();
    }
  } catch (const stepcast::InputError&) {  // the other legal outcome
  }
  return 0;
}
