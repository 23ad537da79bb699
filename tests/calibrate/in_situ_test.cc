// SPDX-License-Identifier: Apache-2.0
#include "calibrate/price/in_situ.h"

#include <gtest/gtest.h>

#include <set>

#include "sim/diagnostic.h"
#include "topology/cluster/gpu_architecture.h"

namespace stepcast::in_situ_test {
namespace {

constexpr const char* kHeader =
    "term,scope,unit,value,sd,prior,prior_sd,runs,sources,prior_source\n";

std::vector<InSituParameter> parameters(const std::string& rows) {
  return parse_in_situ(kHeader + rows);
}

InSituValues with(InSituTerm term, double value) {
  InSituValues values = neutral_in_situ();
  values[static_cast<size_t>(term)] = value;
  return values;
}

// A work of a millisecond, 100 us of which are latency, and a launch of 10 us.
Prices priced(const OpGraph& graph) {
  Prices prices;
  for (size_t i = 0; i < graph.works.size(); ++i) {
    Price price;
    price.time = Time{1'000'000'000};
    price.latency = Time{100'000'000};
    prices.by_work.push_back(price);
  }
  for (size_t i = 0; i < graph.launches.size(); ++i) prices.by_launch.push_back(Time{10'000'000});
  return prices;
}

OpGraph graph_of(WorkKind kind) {
  OpGraph graph;
  Work work;
  work.kind = kind;
  graph.works.push_back(work);
  return graph;
}

double microseconds(WorkKind kind, const InSituValues& values, int64_t ranks = 1,
                    bool crosses_nodes = false) {
  const OpGraph graph = graph_of(kind);
  Prices prices = priced(graph);
  prices.by_work[0].crosses_nodes = crosses_nodes;
  apply_in_situ(values, graph, ranks, prices);
  EXPECT_EQ(prices.by_work[0].in_situ, prices.by_work[0].time - Time{1'000'000'000});
  return to_seconds(prices.by_work[0].time) * 1e6;
}

TEST(InSitu, NeutralValuesChangeNothing) {
  for (const WorkKind kind : {WorkKind::gemm, WorkKind::memory_bound, WorkKind::all_reduce,
                              WorkKind::send_recv, WorkKind::host_copy})
    EXPECT_EQ(microseconds(kind, neutral_in_situ(), 1024), 1000);
}

TEST(InSitu, EachTermStandsOnItsOwnWork) {
  using enum InSituTerm;
  EXPECT_NEAR(microseconds(WorkKind::gemm, with(products, 1.1)), 1100, 1e-6);
  EXPECT_NEAR(microseconds(WorkKind::attention_backward, with(products, 1.1)), 1100, 1e-6);
  EXPECT_NEAR(microseconds(WorkKind::memory_bound, with(products, 1.1)), 1000, 1e-6);
  EXPECT_NEAR(microseconds(WorkKind::memory_bound, with(memory_kernels, 1.1)), 1100, 1e-6);
  EXPECT_NEAR(microseconds(WorkKind::grouped_gemm, with(first_libraries, 1.1)), 1100, 1e-6);
  EXPECT_NEAR(microseconds(WorkKind::host_copy, with(products, 2)), 1000, 1e-6);
}

TEST(InSitu, FactorsOfAPriceMakeItAgain) {
  InSituValues values = neutral_in_situ();
  for (size_t t = 0; t < values.size(); ++t) values[t] = 1.03 + 0.01 * static_cast<double>(t);
  for (const WorkKind kind : {WorkKind::gemm, WorkKind::attention_forward, WorkKind::memory_bound,
                              WorkKind::host_copy, WorkKind::all_reduce, WorkKind::send_recv}) {
    for (const bool in_training : {false, true}) {
      const OpGraph graph = graph_of(kind);
      Prices prices = priced(graph);
      Price& price = prices.by_work[0];
      price.in_training = in_training;
      price.crosses_nodes = kind == WorkKind::send_recv;
      apply_in_situ(values, graph, 16, prices);
      const bool whole = !is_communication(kind);
      double again = whole ? 1000 : 900;
      for (const PriceFactor& f : in_situ_factors(values, graph.works[0], price, 16))
        again *= f.value;
      EXPECT_NEAR(again + (whole ? 0 : 100), to_seconds(price.time) * 1e6, 1e-5)
          << static_cast<int>(kind) << in_training;
    }
  }
  const OpGraph products = graph_of(WorkKind::gemm);
  const auto factors = in_situ_factors(with(InSituTerm::products, 1.1), products.works[0], {}, 16);
  ASSERT_EQ(factors.size(), 1u);
  EXPECT_EQ(factors[0].what, "products");
}

TEST(InSitu, BandwidthLeavesTheLatencyAlone) {
  using enum InSituTerm;
  EXPECT_NEAR(microseconds(WorkKind::all_reduce, with(node_bandwidth, 1.1)), 1090, 1e-6);
  EXPECT_NEAR(microseconds(WorkKind::all_reduce, with(node_bandwidth, 1.1), 16, true), 1000, 1e-6);
  EXPECT_NEAR(microseconds(WorkKind::all_reduce, with(network_bandwidth, 1.1), 16, true), 1090,
              1e-6);
}

TEST(InSitu, SpreadGrowsWithEachDoublingOfTheRanks) {
  const InSituValues values = with(InSituTerm::spread, 0.5);
  EXPECT_NEAR(microseconds(WorkKind::gemm, values, 1), 1000, 1e-6);
  EXPECT_NEAR(microseconds(WorkKind::memory_bound, values, 2), 1005, 1e-6);
  EXPECT_NEAR(microseconds(WorkKind::gemm, values, 1024), 1050, 1e-6);
  EXPECT_NEAR(microseconds(WorkKind::all_reduce, values, 1024), 1000, 1e-6);
}

TEST(InSitu, HostTimeIsScaledAndItsWaitsTakeLonger) {
  OpGraph graph = graph_of(WorkKind::gemm);
  graph.launches.push_back(Launch{}.add(HostCall::synchronize));
  Prices prices = priced(graph);
  InSituValues values = with(InSituTerm::host_calls, 1.5);
  values[static_cast<size_t>(InSituTerm::count_wait)] = 100;
  apply_in_situ(values, graph, 1, prices);
  EXPECT_EQ(prices.by_launch[0], Time{15'000'000});
  EXPECT_EQ(prices.by_launch[1], Time{115'000'000});
}

TEST(InSitu, EachCallOfAModuleTakesLonger) {
  OpGraph graph = graph_of(WorkKind::gemm);
  graph.launches.push_back(Launch{}.add(HostCall::module, 2));
  Prices prices = priced(graph);
  InSituValues values = with(InSituTerm::host_calls, 1.5);
  values[static_cast<size_t>(InSituTerm::module_calls)] = 100;
  apply_in_situ(values, graph, 1, prices);
  EXPECT_EQ(prices.by_launch[0], Time{15'000'000});
  EXPECT_EQ(prices.by_launch[1], Time{215'000'000});
}

TEST(InSitu, TheNarrowestScopeHolds) {
  const auto all = parameters(
      "host calls,Hopper,x,1.2,0,1,1,0,0,s\nhost calls,Grace,x,1.1,0,1,1,0,0,s\n"
      "count wait,all,us,2,0,1,1,0,0,s\nproducts,Ampere,x,1.3,0,1,1,0,0,s\n");
  Node node;
  node.gpu.arch = GpuArch::hopper;
  const auto value_of = [&](InSituTerm t) {
    return in_situ_values(all, node, 0)[static_cast<size_t>(t)];
  };
  EXPECT_EQ(value_of(InSituTerm::host_calls), 1.2);
  EXPECT_EQ(value_of(InSituTerm::count_wait), 2);
  EXPECT_EQ(value_of(InSituTerm::products), 1);
  node.c2c = true;
  EXPECT_EQ(value_of(InSituTerm::host_calls), 1.1);
}

TEST(InSitu, TheAgeOfHostsIsThatOfTheirSoftwareAndNotOfTheGpu) {
  const auto all =
      parameters("host calls,until 2022,x,2,0,1,1,0,0,s\nhost calls,all,x,1.2,0,1,1,0,0,s\n");
  for (const GpuArch arch : {GpuArch::volta, GpuArch::ampere, GpuArch::hopper}) {
    Node node;
    node.gpu.arch = arch;
    const auto of_year = [&](int64_t libraries) {
      return in_situ_values(all, node, libraries)[static_cast<size_t>(InSituTerm::host_calls)];
    };
    EXPECT_EQ(of_year(0), 1.2);
    EXPECT_EQ(of_year(2021), 2);
    EXPECT_EQ(of_year(2022), 2);
    EXPECT_EQ(of_year(2023), 1.2);
  }
}

TEST(InSitu, WhatWasMeasuredInTrainingTakesNoLonger) {
  for (const WorkKind kind : {WorkKind::gemm, WorkKind::memory_bound, WorkKind::all_reduce}) {
    OpGraph graph = graph_of(kind);
    Prices prices = priced(graph);
    prices.by_work[0].in_training = true;
    InSituValues values;
    values.fill(1.5);
    values[static_cast<size_t>(InSituTerm::spread)] = 0;
    apply_in_situ(values, graph, 1, prices);
    EXPECT_EQ(prices.by_work[0].time, Time{1'000'000'000});
  }
}

TEST(InSitu, MeasuredLaunchesStayAsTheyAre) {
  OpGraph graph = graph_of(WorkKind::gemm);
  graph.launches.push_back(Launch{});
  Prices prices = priced(graph);
  prices.measured_launches.assign(prices.by_launch.size(), Time{4'000'000});
  apply_in_situ(with(InSituTerm::host_calls, 2), graph, 1, prices);
  EXPECT_EQ(prices.by_launch.back(), Time{16'000'000});
}

TEST(InSitu, ShippedParametersAreFewAndHoldForEveryGeneration) {
  EXPECT_LE(in_situ_parameters().size(), 16u);
  std::set<std::string> known{"all", "Grace", "until 2022"};
  for (const GpuArchitecture& arch : kGpuArchitectures) {
    EXPECT_FALSE(arch.in_situ.empty()) << arch.name;
    known.insert(std::string(arch.in_situ));
  }
  for (const InSituParameter& p : in_situ_parameters()) {
    EXPECT_TRUE(known.contains(p.scope)) << p.scope;
    EXPECT_GT(p.sd, 0) << name_of(p.term);
    EXPECT_LE(p.sd, p.prior_sd * 1.001) << name_of(p.term);
  }
}

TEST(InSitu, WhatIsNoParameterIsRefused) {
  EXPECT_THROW(parameters("speed,all,x,1,0,1,1,0,0,s\n"), InputError);
  EXPECT_THROW(parameters("products,all,us,1,0,1,1,0,0,s\n"), InputError);
  EXPECT_THROW(parameters("products,all,x,0,0,1,1,0,0,s\n"), InputError);
  EXPECT_THROW(parameters("count wait,all,us,-1,0,1,1,0,0,s\n"), InputError);
  EXPECT_THROW(parameters("products,all,x,1,0,1,0,0,0,s\n"), InputError);
  EXPECT_THROW(parameters("products,all,x,1,0,1,1,0,0,\n"), InputError);
  EXPECT_THROW(parameters("products,until then,x,1,0,1,1,0,0,s\n"), InputError);
}

}  // namespace
}  // namespace stepcast::in_situ_test
