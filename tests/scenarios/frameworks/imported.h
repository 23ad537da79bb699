// SPDX-License-Identifier: Apache-2.0
// What the tests of importers of runs share: samples, and single values of what was written.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "scenarios/document/files.h"
#include "scenarios/frameworks/import_run.h"
#include "scenarios/schema/tree.h"
#include "tests/scenarios/loading.h"

namespace stepcast::testing {

inline std::string import_sample(const std::string& name) {
  std::ifstream in(STEPCAST_TEST_DATA "/imports/" + name, std::ios::binary);
  EXPECT_TRUE(in) << name;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline ImportRequest request(const std::string& kind, std::string text) {
  ImportRequest r;
  r.kind = kind;
  r.file = "file";
  r.text = std::move(text);
  return r;
}

inline ImportedRun imported(const std::string& kind, std::string text) {
  return import_run(request(kind, std::move(text)));
}

// The value of a path as YAML on one line; "" if it is not there.
inline std::string value_of(const ImportedRun& run, const std::string& path) {
  Problems problems;
  const Value root = parse_yaml(problems, problems.add_source({"written", run.scenario}));
  problems.throw_if_any();
  const Value* at = &root;
  for (size_t begin = 0; at != nullptr && begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    at = at->find(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return at == nullptr ? "" : to_flow(*at);
}

inline std::string notes(const ImportedRun& run) {
  std::string all;
  for (const std::string& n : run.notes) all += n + '\n';
  return all;
}

inline std::string unknown(const ImportedRun& run) {
  std::string all;
  for (const UnknownPlace& u : run.unknown)
    all += u.name + '@' + std::to_string(u.line) + ':' + std::to_string(u.column) + ' ';
  return all;
}

inline Failure import_failure(const std::string& kind, const std::string& text) {
  return failure_of([&] { imported(kind, text); });
}

// Beginnings of a text, each so many bytes longer than the one before: some are read, and of those
// that are refused every problem has a code, a sentence and a place in the text.
inline void expect_beginnings_read_or_refused(const std::string& kind, const std::string& text,
                                              size_t apart) {
  size_t read = 0, refused = 0;
  for (size_t n = 0; n < text.size(); n += apart) {
    const std::string beginning = text.substr(0, n);
    const Failure failure = import_failure(kind, beginning);
    ++(failure.all.empty() ? read : refused);
    const int64_t lines = std::ranges::count(beginning, '\n') + 1;
    for (const Diagnostic& d : failure.all) {
      EXPECT_FALSE(d.code.empty()) << kind << ", " << n << " bytes";
      EXPECT_FALSE(d.message.empty()) << kind << ", " << n << " bytes";
      EXPECT_LE(d.line, lines) << kind << ", " << n << " bytes: " << d.message;
    }
  }
  EXPECT_GT(read, 0u) << kind;
  EXPECT_GT(refused, 0u) << kind;
}

}  // namespace stepcast::testing
