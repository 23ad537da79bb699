// SPDX-License-Identifier: Apache-2.0
// What the tests of the importers share: samples, counts, and what an import was refused with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "sim/diagnostic.h"
#include "topology/import/imported_topology.h"

namespace stepcast::test {

inline std::string sample(const std::string& name) {
  std::ifstream in(STEPCAST_TEST_DATA "/topology/" + name, std::ios::binary);
  EXPECT_TRUE(in) << name;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline int64_t devices(const ImportedTopology& t, DeviceKind kind) {
  return std::ranges::count_if(t.graph.devices(), [&](const Device& d) { return d.kind == kind; });
}

inline uint32_t device(const ImportedTopology& t, const std::string& name) {
  for (uint32_t d = 0; d < t.graph.devices().size(); ++d)
    if (t.graph.devices()[d].name == name) return d;
  ADD_FAILURE() << "no device " << name;
  return 0;
}

// The link between two devices; nothing of it if there is none.
inline Link link_between(const ImportedTopology& t, const std::string& a, const std::string& b) {
  const uint32_t x = device(t, a), y = device(t, b);
  for (const Link& l : t.graph.links())
    if ((l.a == x && l.b == y) || (l.a == y && l.b == x)) return l;
  return {};
}

inline int64_t fact(const ImportedTopology& t, const std::string& key) {
  return fact_of(t, key, -1);
}

inline std::string warnings(const ImportedTopology& t) {
  std::string all;
  for (const TopologyWarning& w : t.warnings) all += std::to_string(w.line) + ": " + w.text + '\n';
  return all;
}

// "E321 3:9 message" of every problem; "" if there was none.
inline std::string problems(const std::function<void()>& import) {
  try {
    import();
  } catch (const InputError& e) {
    EXPECT_EQ(exit_status_of(e.diagnostics), 2);
    EXPECT_LE(e.diagnostics.size(), 20U);
    std::string all;
    for (const Diagnostic& d : e.diagnostics) {
      EXPECT_EQ(d.file, "file");
      EXPECT_GE(d.column, std::min(1, d.line));
      all += d.code + ' ' + std::to_string(d.line) + ':' + std::to_string(d.column) + ' ' +
             d.message + '\n';
    }
    return all;
  }
  return "";
}

// Every beginning of a text, in steps, is read or refused.
inline void expect_no_crash_when_cut(const std::string& text, size_t step,
                                     const std::function<void(const std::string&)>& import) {
  for (size_t n = 0; n < text.size(); n += step) problems([&] { import(text.substr(0, n)); });
}

}  // namespace stepcast::test
