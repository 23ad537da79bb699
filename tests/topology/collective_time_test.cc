// SPDX-License-Identifier: Apache-2.0
#include "topology/nccl/collective_time.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <stdexcept>

#include "tests/topology/clusters.h"

namespace stepcast::collective_time_test {
namespace {

TEST(CorrectedSeconds, IsLatencyPlusMovingPlusTheFilledPipeline) {
  Candidate a;
  a.base = 1;
  a.intra = 2;
  a.network = 4;
  a.bandwidth = 10;
  a.wire = 5;
  Factors f;
  f.fill(1);
  EXPECT_DOUBLE_EQ(corrected_seconds(a, f, 0), 7);
  EXPECT_DOUBLE_EQ(corrected_seconds(a, f, 35), 7 + 7 + 7);
  f[static_cast<size_t>(Term::network)] = 0.5;
  f[static_cast<size_t>(Term::ramp)] = 2;
  EXPECT_DOUBLE_EQ(corrected_seconds(a, f, 25), 5 + 5 + 2 * 5);
  f[static_cast<size_t>(Term::wire)] = 0.1;  // now NVLink is the slower part
  EXPECT_DOUBLE_EQ(corrected_seconds(a, f, 50), 5 + 5 + 2 * 5);
  a.copied = 1;
  f[static_cast<size_t>(Term::copy)] = 3;
  EXPECT_DOUBLE_EQ(corrected_seconds(a, f, 12.5), 5 + 5 + 2 * 5);
}

TEST(Corrections, FactorsOfTheClassesMultiply) {
  const Corrections c = Corrections::parse(
      "# remark\nterm,class,factor\nramp,all,0.5\nramp,ring in a node,3\nwire,ring,1.25\n");
  const Factors f = c.factors(
      {{Term::ramp, "all", 1}, {Term::ramp, "ring in a node", 1}, {Term::base, "unheard of", 1}});
  EXPECT_EQ(f[static_cast<size_t>(Term::ramp)], 1.5);
  EXPECT_EQ(f[static_cast<size_t>(Term::base)], 1);
  EXPECT_EQ(f[static_cast<size_t>(Term::wire)], 1);
}

TEST(Corrections, BadFilesAreRefusedWithTheLine) {
  const auto message = [](const char* text) -> std::string {
    try {
      Corrections::parse(text);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message("term,class,factor\nramp,all\n"), "line 2: term,class,factor expected");
  EXPECT_EQ(message("term,class,factor\n\nslope,all,1\n"), "line 3: no such term");
  EXPECT_EQ(message("term,class,factor\nramp,all,-1\n"),
            "line 2: the factor is not a positive number");
  EXPECT_EQ(message("term,class,factor\nramp,all,1x\n"), "line 2: '1x' is no number");
  EXPECT_EQ(message("term,class,factor\nramp,all,\n"), "line 2: '' is no number");
  EXPECT_EQ(message("term,class,factor\nramp,all,1"), "");
}

TEST(Corrections, ShippedOnesStayWithinReason) {
  for (const Cluster& c : {test::dgx_a100(4), test::dgx_h100(4), test::grand_teton(64)}) {
    GroupShape s;
    s.ranks = 32;
    s.nodes = 4;
    s.ranks_per_node = 8;
    for (const Candidate& a : candidates(c, WorkKind::all_reduce, s)) {
      const Factors f =
          shipped_corrections().factors(correction_classes(c, WorkKind::all_reduce, s, a));
      for (Term t : {Term::bandwidth, Term::wire}) {
        EXPECT_NEAR(std::log(f[static_cast<size_t>(t)]), 0, 0.35)
            << name_of(a.algorithm) << " " << name_of(t);
      }
    }
  }
}

TEST(CorrectionClasses, NoClassTwice) {
  GroupShape s;
  s.ranks = 16;
  s.nodes = 2;
  s.ranks_per_node = 8;
  for (const Candidate& a : candidates(test::dgx_h100(2), WorkKind::all_reduce, s)) {
    std::set<std::pair<Term, std::string>> seen;
    for (const CorrectionClass& c :
         correction_classes(test::dgx_h100(2), WorkKind::all_reduce, s, a)) {
      EXPECT_TRUE(seen.insert({c.term, c.name}).second) << c.name;
      EXPECT_EQ(c.name.find(','), std::string::npos) << "the file's cells end at commas";
      EXPECT_GT(c.spread, 0);
    }
  }
}

}  // namespace
}  // namespace stepcast::collective_time_test
