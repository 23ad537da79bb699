// SPDX-License-Identifier: Apache-2.0
#include "calibrate/price/cost_errors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "tests/calibrate/works.h"

namespace stepcast::cost_errors_test {
namespace {

CostErrors errors_by_family(double product, double attention, double memory, double communication) {
  CostErrors e;
  e[0].fill(product);
  e[1].fill(attention);
  e[2].fill(memory);
  e[3].fill(communication);
  return e;
}

// One role that runs each work once; `compute` and `exposed` are what its account says.
struct Step {
  OpGraph graph;
  Prices prices;
  Account account;
};

Step step_of(const std::vector<std::pair<Work, Price>>& works, Time compute, Time exposed) {
  Step s;
  Pass pass;
  for (const auto& [work, price] : works) {
    Op op;
    op.work = static_cast<WorkId>(s.graph.works.size());
    pass.ops.push_back(op);
    s.graph.works.push_back(work);
    s.prices.by_work.push_back(price);
  }
  s.graph.passes.push_back(std::move(pass));
  RoleOps role;
  Item item;
  item.kind = ItemKind::pass;
  role.items.push_back(item);
  s.graph.roles.push_back(role);
  SpendTable table{};
  table[static_cast<size_t>(Spend::matmul)] = compute;
  table[static_cast<size_t>(Spend::exposed_tp)] = exposed;
  table[static_cast<size_t>(Spend::fill)] = Time{1'000'000};
  s.account.by_role.push_back(table);
  return s;
}

double error_of(const Step& s, const CostErrors& e) {
  return step_cost_error(s.graph, s.prices, s.account, e).whole;
}

Work reduce() {
  Work w;
  w.kind = WorkKind::all_reduce;
  return w;
}

TEST(CostErrors, ShippedOnesGrowFromMeasuredToRoofline) {
  for (const auto& family : cost_errors()) {
    EXPECT_LE(family[static_cast<size_t>(Origin::measured)],
              family[static_cast<size_t>(Origin::interpolated)]);
    EXPECT_LE(family[static_cast<size_t>(Origin::interpolated)],
              family[static_cast<size_t>(Origin::extrapolated)]);
    EXPECT_LE(family[static_cast<size_t>(Origin::extrapolated)],
              family[static_cast<size_t>(Origin::roofline)]);
  }
}

TEST(CostErrors, EveryWorkIsOfAFamily) {
  EXPECT_EQ(family_of(test::gemm(8, 8, 8)), CostFamily::product);
  EXPECT_EQ(family_of(test::attention(true, true, 64, 2, 64, 1)), CostFamily::attention);
  EXPECT_EQ(family_of(Work{}), CostFamily::memory);
  EXPECT_EQ(family_of(reduce()), CostFamily::communication);
  Work wait;
  wait.kind = WorkKind::expert_wait;
  EXPECT_EQ(family_of(wait), CostFamily::product);
  wait.kernel = Kernel::activation;
  EXPECT_EQ(family_of(wait), CostFamily::memory);
}

TEST(CostErrors, ErrorsOfAFamilyAddUpAndThoseOfTwoAddInSquares) {
  const Price second{Time{1'000}, Origin::interpolated, ""};
  const CostErrors e = errors_by_family(0.1, 0.1, 0.3, 0.5);
  const Step products =
      step_of({{test::gemm(8, 8, 8), second}, {test::gemm(16, 8, 8), second}}, Time{2'000}, Time{});
  EXPECT_NEAR(error_of(products, e), 0.1, 1e-12);
  const Step mixed = step_of({{test::gemm(8, 8, 8), second}, {Work{}, second}}, Time{2'000}, {});
  EXPECT_NEAR(error_of(mixed, e), std::sqrt(0.05 * 0.05 + 0.15 * 0.15), 1e-12);
  const StepCostError parts = step_cost_error(mixed.graph, mixed.prices, mixed.account, e);
  EXPECT_NEAR(parts.parts[0], 0.05, 1e-12);
  EXPECT_EQ(parts.parts[1], 0);
  EXPECT_NEAR(parts.parts[2], 0.15, 1e-12);
}

TEST(CostErrors, OriginsCountByTheirTime) {
  CostErrors e = errors_by_family(0.1, 0.1, 0.1, 0.1);
  e[0][static_cast<size_t>(Origin::roofline)] = 0.5;
  const Step s = step_of({{test::gemm(8, 8, 8), {Time{3'000}, Origin::measured, ""}},
                          {test::gemm(16, 8, 8), {Time{1'000}, Origin::roofline, ""}}},
                         Time{4'000}, {});
  EXPECT_NEAR(error_of(s, e), 0.75 * 0.1 + 0.25 * 0.5, 1e-12);
}

TEST(CostErrors, CommunicationCountsAsFarAsItIsWaitedFor) {
  const Price price{Time{1'000}, Origin::roofline, ""};
  const CostErrors e = errors_by_family(0.1, 0.1, 0.1, 0.4);
  const std::vector<std::pair<Work, Price>> works{{test::gemm(8, 8, 8), price}, {reduce(), price}};
  EXPECT_NEAR(error_of(step_of(works, Time{1'000}, Time{}), e), 0.1, 1e-12);
  EXPECT_NEAR(error_of(step_of(works, Time{}, Time{1'000}), e), 0.4, 1e-12);
  EXPECT_NEAR(error_of(step_of(works, Time{1'000}, Time{1'000}), e),
              std::sqrt(0.05 * 0.05 + 0.2 * 0.2), 1e-12);
}

TEST(CostErrors, AStepOfNothingLeavesNothingOpen) {
  EXPECT_EQ(error_of(step_of({}, Time{}, Time{}), errors_by_family(1, 1, 1, 1)), 0);
  EXPECT_EQ(step_cost_error(OpGraph{}, Prices{}, Account{}).whole, 0);
}

}  // namespace
}  // namespace stepcast::cost_errors_test
