// SPDX-License-Identifier: Apache-2.0
// Any bytes are a schedule or an InputError; what is read survives being written and read again,
// and what is found sound can be given its communication, which is then found sound too.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "schedules/compute_comms.h"
#include "schedules/custom_schedule.h"
#include "sim/diagnostic.h"

namespace {

// False if the bytes are no schedule, sound or not.
bool survives_reading(std::string_view text) {
  try {
    const stepcast::Schedule schedule = stepcast::read_schedule_csv(text, "fuzz.csv");
    const std::string written = stepcast::write_schedule_csv(schedule);
    if (stepcast::write_schedule_csv(stepcast::read_schedule_csv(written, "again")) != written)
      std::abort();
  } catch (const stepcast::InputError&) {  // the other legal outcome
    return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (!survives_reading(text)) return 0;
  std::string written, with_comms;
  try {
    const stepcast::Schedule schedule = stepcast::load_schedule_csv(text, "fuzz.csv");
    stepcast::check_rendezvous(schedule);
    written = stepcast::write_schedule_csv(schedule);
    with_comms = stepcast::write_compute_comms_csv(schedule);
  } catch (const stepcast::InputError&) {
    return 0;
  }
  // From here on nothing is refused.
  const stepcast::Schedule again = stepcast::load_schedule_csv(with_comms, "again");
  if (stepcast::write_schedule_csv(again) != written) std::abort();
  return 0;
}
