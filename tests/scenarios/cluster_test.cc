// SPDX-License-Identifier: Apache-2.0
// The cluster section, presets, and schedules as the user writes them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/presets.h"
#include "tests/scenarios/loading.h"
#include "tests/temporary_folder.h"

namespace stepcast::cluster_test {
namespace {

using ::testing::ElementsAre;
using testing::failure;
using testing::Failure;
using testing::failure_with;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kMinimal;
using testing::load_with;
using testing::Sets;

const std::string kOwnNode =
    "{nodes: 2, node: {gpu: {memory: 40GiB, mem_bw: 1TB/s, peak: {bf16: 100TFLOP/s}}, gpus: 4, "
    "intra: {kind: pcie, bw: 25GB/s}, nics: {count: 1, bw: 100Gb/s}}}";

TEST(Cluster, AWrongFormOfItsNodesIsAnsweredByTheRightOne) {
  for (const char* written : {"dgx-h100 x16", "dgx-h100x16", "dgx-h100 16", "dgx-h100 X 16"}) {
    const testing::Failure f = testing::failure_with({{"cluster", written}});
    ASSERT_FALSE(f.all.empty()) << written;
    EXPECT_EQ(f.all[0].code, "E125");
    EXPECT_EQ(f.all[0].label, "did you mean 'dgx-h100 x 16'?") << written;
  }
  EXPECT_EQ(testing::failure_with({{"cluster", "dgx-h10"}}).all.at(0).label,
            "did you mean 'dgx-h100'?");
  const std::string help = testing::failure_with({{"cluster", "h100-sxm x 128"}}).all.at(0).help;
  EXPECT_THAT(help, HasSubstr("'h100-sxm' is a GPU; 128 of them are "));
  EXPECT_THAT(help, HasSubstr("dgx-h100 x 16"));
  EXPECT_THAT(testing::failure_with({{"cluster", "h100-sxm x 12"}}).all.at(0).help,
              Not(HasSubstr("12 of them are")));
  EXPECT_EQ(testing::failure_with({{"cluster", "dgx-h100 x0"}}).all.at(0).label,
            "did you mean 'dgx-h100'?");
  EXPECT_THAT(testing::failure_with({{"cluster", "h100-sxm"}}).all.at(0).help,
              HasSubstr("clusters of it are "));
}

TEST(Presets, EveryFileHasAName) {
  for (const PresetKind kind : {PresetKind::model, PresetKind::gpu, PresetKind::cluster}) {
    const std::vector<std::string_view> names = preset_names(kind);
    EXPECT_GE(names.size(), 10u);
    EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
    for (const std::string_view name : names) {
      ASSERT_TRUE(preset_text(kind, name)) << name;
      EXPECT_GT(preset_text(kind, name)->size(), 20u) << name;
    }
  }
  EXPECT_FALSE(preset_text(PresetKind::gpu, "dgx-h100"));  // a cluster's name
  EXPECT_FALSE(preset_text(PresetKind::gpu, ""));
  EXPECT_FALSE(preset_text(PresetKind::gpu, "../gpus/h100-sxm"));
}

TEST(Presets, EveryClusterRunsAScenario) {
  for (const std::string_view name : preset_names(PresetKind::cluster)) {
    const auto load = [&](const std::string& precision) {
      return testing::load("model: gpt2\ncluster: " + std::string(name) +
                               " x 2\nbatch: {global: 4K, seq: 1024}\nprecision: " + precision +
                               "\n",
                           {{"batch.global", "{}"}, {"batch.global", "9216"}});
    };
    Scenario s = load("fp16-mixed");
    if (s.cluster.node.gpu.peak.contains(DType::bf16)) s = load("bf16-mixed");
    EXPECT_EQ(s.cluster.name, name);
    EXPECT_EQ(s.cluster.nodes, 2);
    EXPECT_GT(s.cluster.node.intra_bandwidth.value, 0) << name;
    EXPECT_GT(s.cluster.node.nic_bandwidth.value, 0) << name;
    EXPECT_GT(s.cluster.node.gpu.memory.value, s.cluster.node.gpu.context.value) << name;
    // Stated: that a GPU is none of the generations that are known is said too.
    EXPECT_THAT(testing::setting(s, "cluster.node.gpu.arch"), HasSubstr("preset")) << name;
    EXPECT_THAT(s.warnings, IsEmpty()) << name;
  }
}

TEST(Cluster, OverPcieGpusReachEachOtherAsTheirHost) {
  const auto node = [](const char* gpu, const char* intra) {
    return Sets{{"cluster",
                 fmt::format("{{nodes: 1, node: {{gpu: {}, gpus: 4, intra: {}}}}}", gpu, intra)}};
  };
  const Scenario derived = load_with(node("a100-pcie-80g", "{kind: pcie}"));
  EXPECT_EQ(derived.cluster.node.intra_bandwidth.value, 31.5e9);
  EXPECT_EQ(testing::setting(derived, "cluster.node.intra.bw"),
            "31.5GB/s (derived: cluster.node.gpu.host_bw, over PCIe)");
  const Scenario stated = load_with(node("a100-pcie-80g", "{kind: pcie, bw: 20GB/s}"));
  EXPECT_EQ(stated.cluster.node.intra_bandwidth.value, 20e9);
  EXPECT_EQ(failure_with(node("h100-sxm", "{kind: nvswitch}")).lines,
            (std::vector<std::string>{"E126 1:43 'cluster.node.intra.bw' is missing"}));
  EXPECT_EQ(
      failure_with(node("{memory: 40GiB, mem_bw: 1TB/s, peak: {bf16: 100TFLOP/s}}", "{kind: pcie}"))
          .codes,
      "E126");
}

TEST(Cluster, ANicMovesNoMoreThanItsPcieSlot) {
  const Scenario slow =
      load_with({{"cluster", "dgx-h100 x 2"}, {"cluster.node.nics.bw", "800Gb/s"}});
  EXPECT_DOUBLE_EQ(slow.cluster.node.nic_bandwidth.value, 63e9);
  EXPECT_THAT(slow.warnings,
              ElementsAre("a NIC of 100GB/s moves 63GB/s: cluster.node.pcie.bw is 63GB/s"));
  const Scenario fast = load_with({{"cluster", "dgx-h100 x 2"},
                                   {"cluster.node.nics.bw", "800Gb/s"},
                                   {"cluster.node.pcie.bw", "126GB/s"}});
  EXPECT_DOUBLE_EQ(fast.cluster.node.nic_bandwidth.value, 100e9);
  EXPECT_THAT(fast.warnings, IsEmpty());
  // Two NICs share their GPU's slot.
  const Scenario two = load_with({{"cluster", "dgx-h100 x 2"}, {"cluster.node.nics.count", "16"}});
  EXPECT_DOUBLE_EQ(two.cluster.node.nic_bandwidth.value, 31.5e9);
}

TEST(Cluster, MoreGpusThanThePresetsNodeKeepItsNics) {
  EXPECT_THAT(load_with({{"cluster", "dgx-h100 x 2"}, {"cluster.node.gpus", "16"}}).warnings,
              ElementsAre(HasSubstr("nodes of 16 GPUs keep the preset's 8 NICs")));
  EXPECT_THAT(load_with({{"cluster", "dgx-h100 x 2"},
                         {"cluster.node.gpus", "16"},
                         {"cluster.node.nics.count", "16"}})
                  .warnings,
              IsEmpty());
}

TEST(Presets, EveryGpuCanBeNamed) {
  for (const std::string_view name : preset_names(PresetKind::gpu)) {
    const Scenario s =
        load_with({{"cluster.node.gpu", std::string(name)}, {"precision", "fp16-mixed"}});
    EXPECT_EQ(s.cluster.node.gpu.name, name);
    EXPECT_GT(s.cluster.node.gpu.memory_bandwidth.value, 0) << name;
    EXPECT_GT(s.cluster.node.gpu.host_bandwidth.value, 15e9) << name;
  }
}

TEST(Cluster, PresetsTakeOverrides) {
  const Scenario s =
      load_with({{"cluster",
                  "{preset: dgx-h100, nodes: 2, node: {gpu: {memory: 90GiB}, nics: {bw: 200Gb/s}}, "
                  "fabric: {kind: clos, oversub: 2}}"}});
  EXPECT_EQ(s.cluster.node.gpu.name, "h100-sxm");
  EXPECT_EQ(s.cluster.node.gpu.memory.value, int64_t{90} << 30);
  EXPECT_EQ(s.cluster.node.gpu.sms, 132);
  EXPECT_EQ(s.cluster.node.nic_bandwidth.value, 25e9);
  EXPECT_EQ(s.cluster.node.nics, 8);
  EXPECT_EQ(s.cluster.fabric.kind, FabricKind::clos);
  EXPECT_EQ(s.cluster.fabric.oversubscription, 2);
}

TEST(Cluster, CanBeStatedWithoutAPreset) {
  const Scenario s = load_with({{"cluster", "null"}, {"cluster", kOwnNode}, {"parallel.pp", "1"}});
  EXPECT_EQ(s.cluster.gpus(), 8);
  EXPECT_EQ(s.cluster.node.intra, IntraKind::pcie);
  EXPECT_EQ(s.cluster.node.gpu.arch, GpuArch::other);
  EXPECT_EQ(s.cluster.node.gpu.peak.at(DType::bf16).value, 100e12);
  EXPECT_EQ(s.cluster.node.nic_latency.count(), 2'000'000);
}

TEST(Cluster, ALimitOfPowerCountsAgainstTheRating) {
  const auto gpu_of = [](const Sets& sets) { return load_with(sets).cluster.node.gpu; };
  const Gpu gpu = gpu_of({{"cluster.node.gpu.power_limit", "500W"}});
  EXPECT_EQ(gpu.power.value, 700);
  EXPECT_EQ(gpu.power_limit.value, 500);
  EXPECT_EQ(gpu.name, "h100-sxm") << "measured tables apply";
  EXPECT_EQ(gpu_of({}).power_limit.value, 0);
  std::string own = kOwnNode;
  own.insert(own.find("memory:"), "power_limit: 500W, ");
  EXPECT_EQ(failure_with({{"cluster", "null"}, {"cluster", own}, {"parallel.pp", "1"}}).codes,
            "E126");
}

TEST(Cluster, WhatIsMissingIsNamed) {
  const auto codes = [](const std::string& cluster) {
    return failure_with({{"cluster", "null"}, {"cluster", cluster}}).codes;
  };
  EXPECT_EQ(codes("{nodes: 2}"), "E126 E126 E126");
  EXPECT_EQ(codes("{nodes: 2, node: {gpu: h100-sxm}}"), "E126 E126");
  EXPECT_EQ(codes("{nodes: 1, node: {gpu: h100-sxm, gpus: 1}}"), "E201");  // no links needed
  EXPECT_EQ(codes("{preset: dgx-h100, node: {gpu: {reserve: 99GiB}}}"), "E127");
  EXPECT_EQ(codes("dgx-h100 x"), "E125");
  EXPECT_EQ(codes("dgx-h100 x two"), "E107");
  EXPECT_EQ(codes("dgx-h100 x 0"), "E121");
  EXPECT_EQ(codes("dgx-h100 x 999999999"), "E123");
  EXPECT_EQ(codes("{preset: dgx-h100, node: {nics: {count: 1000000}}}"), "E123");
  EXPECT_EQ(codes("{preset: dgx-h100, node: {gpu: {power_limit: 1e-300W}}}"), "E123");
  EXPECT_EQ(codes("{preset: dgx-h100, node: {gpu: {power: 1e300W}}}"), "E123");
  for (const std::string part : {"hosts: 1025", "intra: {switches: 1025}", "intra: {links: 1025}",
                                 "cpus: {count: 1025}", "pcie: {switches: 1025}"})
    EXPECT_EQ(codes("{preset: dgx-h100, node: {" + part + "}}"), "E123") << part;
}

TEST(Cluster, UnknownPresetsSuggest) {
  const Failure f = failure_with({{"cluster", "dgx-h10 x 2"}});
  EXPECT_EQ(f.codes, "E125");
  EXPECT_EQ(f.all[0].label, "did you mean 'dgx-h100'?");
  EXPECT_EQ(failure_with({{"cluster.node.gpu", "h10"}}).codes, "E125");
}

TEST(Cluster, TwoWayBandwidthIsWarnedAbout) {
  EXPECT_THAT(load_with({{"cluster.node.intra.bw", "900GB/s"}}).warnings,
              ElementsAre("900GB/s looks like the two-way figure of NVLink 4; one way is 450GB/s"));
  const std::string a100 =
      "model: llama3-8b\ncluster: dgx-a100-80g\nbatch: {global: 8, seq: 2048}\n";
  EXPECT_THAT(testing::load(a100, {{"cluster.node.intra.bw", "600GB/s"}}).warnings,
              ElementsAre(HasSubstr("one way is 300GB/s")));
  EXPECT_THAT(testing::load(a100, {{"cluster.node.intra.bw", "300GB/s"}}).warnings, IsEmpty());
}

TEST(Cluster, TiersAreInnermostFirst) {
  const auto with_tiers = [](const std::string& tiers) {
    return failure_with({{"cluster.fabric.tiers", tiers}}).codes;
  };
  EXPECT_EQ(with_tiers("[{name: a, size: 16}]"), "");
  EXPECT_EQ(with_tiers("[{name: a, size: 16}, {name: b, size: 16}]"), "E221");
  EXPECT_EQ(with_tiers("[{name: a, size: 16}, {name: a, size: 32}]"), "E221");
  EXPECT_EQ(with_tiers("[{size: 16}, {size: 32}, {size: 64}, {size: 128}]"), "");
  EXPECT_EQ(with_tiers("[{size: 16}, {size: 32}, {size: 64}, {size: 128}, {size: 256}]"), "E221");
  EXPECT_EQ(with_tiers("[{name: a, size: 8}]"), "E221");  // 16 GPUs
  EXPECT_EQ(with_tiers("[{name: a}]"), "E126");
  EXPECT_EQ(with_tiers("[{name: a, size: 16, oversub: 0.5}]"), "E121");
  EXPECT_EQ(with_tiers("[{name: a, sise: 16}]"), "E102");
  EXPECT_EQ(with_tiers("[5]"), "E107 E126");
  EXPECT_EQ(with_tiers("{a: b}"), "E107");
}

TEST(WrittenSchedule, ReplacesTheGenerator) {
  const testing::Sets batch{{"batch.global", "8"}};
  const auto steps = [&](const std::string& list) {
    testing::Sets sets = batch;
    sets.emplace_back("schedule.steps", list);
    return sets;
  };
  const Scenario s = load_with(steps("[\"0F0 0F1 0B0 0B1\", \"1F0 1B0 1F1 1B1\"]"));
  EXPECT_EQ(s.schedule.name, "custom");
  EXPECT_EQ(s.schedule.ranks[1][1], (Action{ActionKind::backward, 1, 0}));
  EXPECT_EQ(failure_with(steps("[\"0F0 0B0\", \"1F0 1B0\"]")).codes, "E205");  // one microbatch
  EXPECT_EQ(failure_with(steps("[\"0F0 0B0 0F1 0B1\"]")).codes, "E205");       // one rank
  EXPECT_EQ(failure_with(steps("[\"0F0 0F1 0B0 0B1\", \"1F0 1B0 1F1\"]")).codes, "E402");
  EXPECT_EQ(
      load_with(steps("[\"0F0 0I0 0F1 0B1 0W0\", \"1F0 1B0 1F1 1B1\"]")).schedule.ranks[0][1].kind,
      ActionKind::backward_input);
  EXPECT_EQ(failure_with(steps("[]")).codes, "E403");
  EXPECT_EQ(failure_with(steps("{a: b}")).codes, "E107");
  const Failure f = failure_with(steps("[\"0F0 0F1 0B0 0B1\", \"1F0 XX 1F1 1B1\"]"));
  EXPECT_EQ(f.codes, "E403");
  EXPECT_EQ(f.all[0].column, 26);
  EXPECT_EQ(f.all[0].length, 2);
}

TEST(WrittenSchedule, ADeadlockIsExitStatusFourWhateverElseIsWrong) {
  const testing::Sets stuck{{"batch.global", "8"},
                            {"schedule.steps", "[\"0F0 0B0 0F1 0B1\", \"1F0 1F1 1B0 1B1\"]"}};
  EXPECT_EQ(failure_with(stuck).codes, "E401");
  EXPECT_EQ(failure_with(stuck).exit_status, 4);
  testing::Sets worse = stuck;
  worse.emplace_back("perturb", "[{where: nowhere, compute: 0.5}]");
  EXPECT_EQ(failure_with(worse).all.size(), 2u);
  EXPECT_EQ(failure_with(worse).exit_status, 4);
}

TEST(WrittenSchedule, MayBeAPyTorchFile) {
  const testing::TemporaryFolder folder;
  folder.write("good.csv", "0F0,0F1,,0B0,0B1\r\n,1F0,1B0,1F1,1B1\r\n");
  folder.write("bad.csv", "0F0,0F1,,0B0,0B1\n,1F0,1X0,1F1,1B1\n");
  const std::string text = kMinimal + "schedule: {file: good.csv}\n";
  const auto load_here = [&](const testing::Sets& sets) {
    LoadOptions options;
    options.set = {{"batch.global", "8"}};
    options.set.insert(options.set.end(), sets.begin(), sets.end());
    return load_scenario_text(text, (folder.path() / "run.yaml").string(), options);
  };
  EXPECT_EQ(load_here({}).schedule.microbatches, 2);
  const Failure f = testing::failure_of([&] { load_here({{"schedule.file", "bad.csv"}}); });
  EXPECT_EQ(f.codes, "E402");
  EXPECT_EQ(f.all[0].file, "bad.csv");
  EXPECT_EQ(f.all[0].line, 2);
  EXPECT_EQ(testing::failure_of([&] { load_here({{"schedule.file", "no.csv"}}); }).codes, "E101");
  EXPECT_EQ(testing::failure_of([&] { load_here({{"schedule.kind", "1f1b"}}); }).codes, "E127");
}

// Everything the notation has: pairs, pieces of sequences, two replicas, stages on any rank.
TEST(WrittenSchedule, MayUseTheWholeNotation) {
  const auto load_steps = [](const std::string& list, testing::Sets sets = {}) {
    sets.emplace_back("batch.global", "8");
    sets.emplace_back("schedule.steps", list);
    return load_with(sets).schedule;
  };
  const Schedule pair = load_steps("[\"0F0 0F1 0B0 0B1\", \"1F0 (1F1;1B0)OVERLAP_F_B 1B1\"]");
  EXPECT_TRUE(pair.ranks[1][1].overlaps_next);
  const Schedule pieces = load_steps(
      "[\"0F0.0 0F0.1 0B0.1 0B0.0 0F1.0 0F1.1 0B1.1 0B1.0\", "
      "\"1F0.0 1F0.1 1B0.1 1B0.0 1F1.0 1F1.1 1B1.1 1B1.0\"]");
  EXPECT_EQ(pieces.seq_splits, 2);
  EXPECT_EQ(pieces.microbatches, 2);
  const Schedule five = load_steps(
      "[\"0F0 1F0 0F1 1F1 4F0 4B0 4F1 4B1 1B0 0B0 1B1 0B1\", "
      "\"2F0 3F0 2F1 3F1 3B0 2B0 3B1 2B1\"]",
      {{"parallel.layout", "\"Et*6|t*7|t*7|t*7|t*5L\""}});
  EXPECT_EQ(five.rank_of_stage, (std::vector<uint16_t>{0, 0, 1, 1, 0}));
  const Schedule kept = load_steps("[\"0F0 0O0 0F1 0B1 0L0 0B0\", \"1F0 1F1 1R1 1B1 1B0\"]");
  EXPECT_EQ(kept.ranks[0][1].kind, ActionKind::offload);
}

TEST(ScheduleNames, AliasesAndMistakes) {
  EXPECT_EQ(load_with({{"schedule", "1F1B"}}).schedule.name, "1f1b");
  EXPECT_EQ(load_with({{"schedule", "GPipe"}}).schedule_title, "GPipe");
  EXPECT_EQ(load_with({{"schedule", "interleaved"}, {"parallel.vpp", "2"}}).schedule.name,
            "interleaved-1f1b");
  const Failure f = failure_with({{"schedule", "1f1bb"}});
  EXPECT_EQ(f.codes, "E125");
  EXPECT_EQ(f.all[0].label, "did you mean '1f1b'?");
  EXPECT_EQ(f.all[0].help.substr(0, 10), "legal now:");
  EXPECT_EQ(failure_with({{"schedule", "interleaved"}}).codes, "E205");  // vpp = 1
  EXPECT_EQ(failure_with({{"schedule", "{kind: 1f1b, group: 4}"}}).codes, "E127");
  // A family by whose name one would think that it takes a group, and one by whose name not.
  EXPECT_EQ(
      failure_with({{"schedule", "{kind: interleaved-1f1b-flex, group: 4}"}, {"parallel.vpp", "2"}})
          .codes,
      "E127");
  EXPECT_EQ(load_with({{"schedule", "{kind: breadth-first, group: 4}"}, {"parallel.vpp", "2"}})
                .schedule.ranks.size(),
            2u);
  EXPECT_EQ(load_with({{"schedule", "{kind: interleaved, group: 4}"}, {"parallel.vpp", "2"}})
                .schedule.microbatches,
            64);
}

TEST(Cluster, AGpuWithChangedRatesIsAnotherOneLikeItsPreset) {
  // What the preset has is no change, and its memory is no rate.
  for (const auto& [key, value] : {std::pair{"memory", "96GiB"},
                                   {"mem_bw", "3352GB/s"},
                                   {"sms", "132"},
                                   {"peak.bf16", "989.4TFLOP/s"},
                                   {"arch", "hopper"}}) {
    const Scenario as_it_is = testing::load_with({{std::string("cluster.node.gpu.") + key, value}});
    EXPECT_EQ(as_it_is.cluster.node.gpu.name, "h100-sxm") << key;
    EXPECT_EQ(as_it_is.cluster.node.gpu.like.get(), nullptr) << key;
    EXPECT_TRUE(as_it_is.warnings.empty()) << key;
  }
  const Scenario faster = testing::load_with({{"cluster.node.gpu.mem_bw", "4.8TB/s"}});
  EXPECT_EQ(faster.cluster.node.gpu.name, "h100-sxm changed");
  ASSERT_NE(faster.cluster.node.gpu.like.get(), nullptr);
  EXPECT_EQ(faster.cluster.node.gpu.like.get()->name, "h100-sxm");
  ASSERT_EQ(faster.warnings.size(), 1U);
  EXPECT_NE(faster.warnings[0].find("mem_bw is not that of h100-sxm: its measured times"),
            std::string::npos);
  const Scenario fewer = testing::load_with({{"cluster.node.gpu.sms", "100"}});
  ASSERT_EQ(fewer.warnings.size(), 1U);
  EXPECT_NE(fewer.warnings[0].find("peak and mem_bw, which say how fast it is, are"),
            std::string::npos);
  // As often as it is written, it is the same GPU.
  EXPECT_EQ(faster.cluster, testing::load_with({{"cluster.node.gpu.mem_bw", "4800GB/s"}}).cluster);
}

TEST(Cluster, AGpuMayBeLikeOneThatWasMeasured) {
  const auto gpu_of = [](const std::string& gpu) {
    return testing::load_with({{"cluster.node.gpu", gpu}}).cluster.node.gpu;
  };
  ASSERT_NE(gpu_of("b300-sxm").like.get(), nullptr);
  EXPECT_EQ(gpu_of("b300-sxm").like.get()->name, "b200-sxm");
  EXPECT_EQ(gpu_of("b200-sxm").like.get(), nullptr);
  const Gpu own = gpu_of(
      "{like: b200-sxm, arch: blackwell, memory: 400GiB, mem_bw: 20TB/s, peak: {bf16: 4PFLOP/s}}");
  EXPECT_EQ(own.like.get()->name, "b200-sxm");
  // Its preset has no say where another GPU is named.
  EXPECT_EQ(gpu_of("{preset: h100-sxm, like: b200-sxm, mem_bw: 8TB/s}").like.get()->name,
            "b200-sxm");
  // A changed preset is like it, and that one like another.
  const Gpu changed = gpu_of("{preset: b300-sxm, mem_bw: 9TB/s}");
  EXPECT_EQ(changed.like.get()->name, "b300-sxm");
  EXPECT_EQ(changed.like.get()->like.get()->name, "b200-sxm");
  // Power alone is no rate, of a changed preset neither.
  EXPECT_EQ(gpu_of("{preset: h100-sxm, power: 900W}").like.get(), nullptr);
  EXPECT_EQ(gpu_of("{preset: h100-sxm, power: 900W, mem_bw: 4TB/s}").like.get()->power, Power{900});
  EXPECT_EQ(gpu_of("{preset: h100-sxm, like: h100-sxm}").like.get(), nullptr);
  const testing::Failure none =
      testing::failure_with({{"cluster.node.gpu", "{preset: h100-sxm, like: h1000}"}});
  EXPECT_EQ(none.codes, "E125");
}

TEST(Cluster, SaysWhatItsNetworkDoes) {
  const Scenario plain = testing::load_with({});
  EXPECT_FALSE(plain.cluster.fabric.sharp);
  EXPECT_EQ(plain.cluster.node.nic_driver, NicDriver::verbs);
  const Scenario told = testing::load_with(
      {{"cluster.fabric.sharp", "true"}, {"cluster.node.nics.driver", "efa-v1"}});
  EXPECT_TRUE(told.cluster.fabric.sharp);
  EXPECT_EQ(told.cluster.node.nic_driver, NicDriver::efa_v1);
  EXPECT_EQ(testing::load_with({{"cluster", "gcp-a3-mega x 16"}}).cluster.node.nic_driver,
            NicDriver::tcpxo);
  const Failure f = testing::failure_of([] {
    testing::load_with({{"cluster.node.nics.driver", "ib"}});
  });
  EXPECT_EQ(f.codes, "E125");
}

}  // namespace
}  // namespace stepcast::cluster_test
