// SPDX-License-Identifier: Apache-2.0
// Any bytes are a cost table or an InputError.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "calibrate/cost_table.h"
#include "sim/diagnostic.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    stepcast::CostTable::parse({reinterpret_cast<const char*>(data), size}, "fuzz.csv");
  } catch (const stepcast::InputError&) {  // the other legal outcome
  }
  return 0;
}
