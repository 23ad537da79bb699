// SPDX-License-Identifier: Apache-2.0
// Reference vectors of tests/data/schedules: what the public implementations make of a set of
// parameters.
#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "schedules/lower/lower_unit.h"
#include "schedules/schedule.h"

namespace stepcast::testing {

struct Makespan {
  double makespan = 0, span = 0;  // in the unit of the costs
};

struct Vector {
  std::string id, schedule, placement;
  ScheduleParams params;
  int64_t stages = 0;
  std::vector<std::string> rows;  // one a rank, actions separated by commas
  // Empty where the file does not say, as seq1f1b.jsonl.
  std::vector<int64_t> leading_forwards, peak_until_weight, peak_until_input;
  std::map<std::string, Makespan> eval;  // by cost set: "unit", "uneven", "straggler"
};

// All vectors of a file, "1f1b.jsonl".  Throws if the file is not there or not as expected.
std::vector<Vector> read_vectors(const std::string& file);

// Every file of vectors in tests/data/schedules, in order, but for `except`, which have to be
// there.
std::vector<std::string> vector_files(const std::set<std::string>& except = {});

// Of a test that has the name of a file: without what a name of GoogleTest cannot have.
std::string test_name_of(const ::testing::TestParamInfo<std::string>& file);

// A parameter set that a reference implementation refuses.
struct Refused {
  std::string schedule, refused_by, reason;
  ScheduleParams params;
};
std::vector<Refused> read_refused(const std::string& file);

std::string read_file(const std::string& file);  // of tests/data/schedules

// The cost sets of the vectors, one unit of time = 1 ns.
UnitCosts costs_named(const std::string& name, int64_t pp);

// Makespan and span, in units of 1 ns, of the schedule alone.
Makespan evaluate(const Schedule& schedule, const UnitCosts& costs);

// The rows of all ranks as the vectors write them: "0F0,(0F1;0B0)OVERLAP_F_B".
std::vector<std::string> rows_of(const Schedule& schedule);

// What check_schedule() finds, a line each; empty if nothing.
std::string faults_of(const Schedule& schedule);

inline void PrintTo(const Vector& v, std::ostream* out) {
  *out << v.id;
}

}  // namespace stepcast::testing
