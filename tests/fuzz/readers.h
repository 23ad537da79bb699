// SPDX-License-Identifier: Apache-2.0
// What is fuzzed: each function takes any bytes and returns, whatever they are.  What they mean
// must be refused by an InputError or hold what the function says of it; everything else escapes as
// another exception.
//
// tools/fuzz gives them broken inputs (fuzzer.cc); every input in seeds/READER, those that once
// broke something among them, is given to them by the tests (seeds_test.cc).
#pragma once

#include <string_view>

#include "sim/diagnostic.h"

namespace stepcast::fuzz {

void scenario(std::string_view text);      // a scenario file, with --set
void forecast(std::string_view text);      // the same, if it is small, to the end of the whole path
void schedule_csv(std::string_view text);  // PyTorch's two formats
void cost_table(std::string_view text);    // and calibration plans
void measurements(std::string_view text);  // nccl-tests, mamf-finder, Kineto
void import(std::string_view text);        // config.json, Megatron's arguments and logs, and others
void import_some(
    std::string_view text);            // as what it looks like and as one other kind: much faster
void topology(std::string_view text);  // nvidia-smi, NCCL's XML, ibnetdiscover
void small_tables(std::string_view text);  // traces of routing, shipped CSV files
void search(std::string_view text);        // the section of a scenario, conditions on layouts

// What every refusal has: a problem at least, an exit status for wrong input, and a text and JSON
// to show.
void check_refusal(const InputError& e);

// Whether `read()` takes what it is given; if it refuses, it does so as it should.
template <class Read>
bool takes(Read read) {
  try {
    read();
    return true;
  } catch (const InputError& e) {
    check_refusal(e);
    return false;
  }
}

}  // namespace stepcast::fuzz
