// SPDX-License-Identifier: Apache-2.0
// What is read survives being written and read again, and what is found sound can be given its
// communication, which is then found sound too.
#include <string>

#include "schedules/formats/compute_comms.h"
#include "schedules/formats/schedule_csv.h"
#include "sim/check.h"
#include "sim/diagnostic.h"
#include "tests/fuzz/readers.h"

namespace stepcast::fuzz {
namespace {

// False if the bytes are no schedule, sound or not.
bool survives_reading(std::string_view text) {
  return takes([&] {
    const std::string written = write_schedule_csv(read_schedule_csv(text, "fuzz.csv"));
    STEPCAST_CHECK(write_schedule_csv(read_schedule_csv(written, "again")) == written, written);
  });
}

}  // namespace

void schedule_csv(std::string_view text) {
  if (!survives_reading(text)) return;
  std::string written, with_comms;
  const bool sound = takes([&] {
    const Schedule schedule = load_schedule_csv(text, "fuzz.csv");
    check_rendezvous(schedule);
    written = write_schedule_csv(schedule);
    with_comms = write_compute_comms_csv(schedule);
  });
  if (!sound) return;
  try {
    const Schedule again = load_schedule_csv(with_comms, "again");
    STEPCAST_CHECK(write_schedule_csv(again) == written, with_comms);
  } catch (const InputError& e) {
    STEPCAST_CHECK(false, std::string(e.what()) + "\nwritten:\n" + with_comms);
  }
}

}  // namespace stepcast::fuzz
