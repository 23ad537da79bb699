// SPDX-License-Identifier: Apache-2.0
#include "report/json/result.h"

#include "report/diagnostics.h"
#include "report/text/intervals.h"
#include "report/text/roles.h"
#include "report/text/train.h"
#include "sim/check.h"

namespace stepcast {

namespace {

Time at(const SpendTable& table, int spend) {
  return table[static_cast<size_t>(spend)];
}

std::string_view key_of(int spend) {
  return name_of(static_cast<Spend>(spend));
}

// {"matmul": 1.5, ...}: items that are zero are left out, twice for seconds and picoseconds.
template <class Keep>
void write_items(JsonWriter& json, std::string_view name, const SpendTable& table, Keep keep) {
  for (const bool exact : {false, true}) {
    json.object(std::string(name) + (exact ? "_ps" : ""), [&] {
      for (int i = 0; i < kSpends; ++i) {
        if (at(table, i).count() == 0 || !keep(static_cast<Spend>(i))) continue;
        json.key(key_of(i));
        if (exact)
          json.value(int64_t{at(table, i).count()});
        else
          json.seconds(at(table, i));
      }
    });
  }
}

void write_scenario(JsonWriter& json, const ScenarioSummary& s) {
  json.object("scenario", [&] {
    json.member("name", s.name);
    json.member("hash", s.hash);
    json.member("gpu", s.gpu);
    json.member("gpus", s.gpus);
    json.member("tp", s.tp);
    json.member("cp", s.cp);
    json.member("ep", s.ep);
    json.member("etp", s.etp);
    json.member("pp", s.pp);
    json.member("vpp", s.vpp);
    json.member("dp", s.dp);
    json.member("zero", s.zero);
    json.member("global_batch", s.global_batch);
    json.member("micro_batch", s.micro_batch);
    json.member("mtp_layers", s.mtp_layers);
    json.member("microbatches", s.microbatches);
    json.member("seq", s.seq);
    json.member("schedule", s.schedule);
  });
}

void write_utilization(JsonWriter& json, const Result& r) {
  const Utilization& u = r.utilization;
  json.object("mfu", [&] {
    json.member("value", u.mfu_full_attention);
    json.member("convention", "full_attention");
    json.object("all", [&] {
      json.member("full_attention", u.mfu_full_attention);
      json.member("causal_attention", u.mfu_causal_attention);
    });
  });
  json.member("hfu", u.hfu);
  json.member("hfu_korthikanti", u.hfu_korthikanti);
  json.member("hfu_own_peaks", u.hfu_own_peaks);
}

void write_what_if(JsonWriter& json, const Result& r) {
  json.member("what_if_of", r.what_if_without_contention ? "step_without_contention" : "step");
  json.member("what_if_left_out", r.what_if_left_out);
  json.objects("what_if", r.what_if, [&](const WhatIf& w) {
    json.member("free", name_of(w.spend));
    json.member_time("saved", w.saved);
  });
}

void write_trust(JsonWriter& json, const Result& r) {
  json.object("trust", [&] {
    for (int i = 0; i < kOrigins; ++i)
      json.member(name_of(static_cast<Origin>(i)), r.trust[static_cast<size_t>(i)]);
  });
  json.member("calibration", r.calibration);
  json.member("calibration_hash", r.calibration_hash);
  json.member("own_runs_hash", r.own_runs_hash);
}

// null unless the schedule was made for the scenario.
void write_synthesis(JsonWriter& json, const Result& r) {
  json.optional_object("synthesis", r.synthesis, [&](const SynthesisFacts& f) {
    json.member_time("objective", f.objective);
    json.member_time("lower_bound", f.lower_bound);
    json.member("gap", f.gap);
    json.member("winner", f.winner);
    json.member("start", f.start);
    json.member_time("start_time", f.start_time);
    json.member("orders_tried", f.orders_tried);
  });
}

// null unless ranks differ.
void write_disturbance(JsonWriter& json, const Result& r) {
  json.optional_object("disturbance", r.disturbance, [&](const Disturbance& d) {
    json.member_time("undisturbed", d.undisturbed);
    json.member("ranks", d.ranks);
    json.member("slow_ranks", d.slow_ranks);
    json.member("fast_ranks", d.fast_ranks);
    json.member("slow_links", d.slow_links);
    json.member("jitter", d.jitter);
    json.member("shared_links", d.shared_links);
    json.member("interference", d.interference);
    json.member("last_rank", d.last_rank);
    json.member("critical_rank", d.critical_rank);
    json.member_time("without_contention", d.without_contention);
    json.member("waiting", d.waiting);
    json.member_time("mean_wait", d.mean_wait);
    json.member("lanes", d.lanes);
  });
}

// null of a single run.
void write_replicas(JsonWriter& json, const Result& r) {
  json.optional_object("replicas", r.replicas, [&](const ReplicaTimes& t) {
    json.member("count", t.count);
    json.member("first_seed", static_cast<int64_t>(t.first_seed));
    json.member_time("mean", t.mean);
    json.member_time("min", t.min);
    json.member_time("p5", t.p5);
    json.member_time("p50", t.p50);
    json.member_time("p95", t.p95);
    json.member_time("max", t.max);
  });
}

// The members of one result, after name and versions.
void write_result(JsonWriter& json, const Result& r) {
  write_scenario(json, r.scenario);
  json.member_time("step_time", r.step_time);
  json.member_time("span", r.span);
  write_synthesis(json, r);
  write_disturbance(json, r);
  write_replicas(json, r);
  json.member("tokens_per_step", r.tokens_per_step);
  json.member("tokens_per_s_per_gpu", r.tokens_per_s_per_gpu);
  json.member("model_flops_per_step", r.model_flops_per_step);
  write_utilization(json, r);
  write_bubble(json, r);
  write_account(json, r);
  write_critical_path(json, r);
  write_what_if(json, r);
  write_memory(json, r);
  write_trust(json, r);
  write_interval(json, r.interval);
  write_engine(json, r);
  json.values("warnings", r.scenario.warnings);
}

void write_versions(JsonWriter& json, std::string_view version) {
  json.member("schema_version", kResultSchemaVersion);
  json.member("version", version);
}

void write_categories(JsonWriter& json, const MemoryTable& table) {
  json.object("by_category", [&] {
    for (int i = 0; i < kMemoryCategories; ++i)
      json.member(name_of(static_cast<MemoryCategory>(i)), table[static_cast<size_t>(i)].value);
  });
}

}  // namespace

void write_bubble(JsonWriter& json, const Result& r) {
  static constexpr SpendTable kNothing{};
  const uint32_t role = r.account.critical_role;
  const SpendTable& table = role < r.account.by_role.size() ? r.account.by_role[role] : kNothing;
  json.object("bubble", [&] {
    json.member("fraction", share_of(r.bubble, r.step_time));
    json.key("seconds");
    json.seconds(r.bubble);
    json.member("ps", int64_t{r.bubble.count()});
    write_items(json, "by_cause", table, is_bubble);
  });
}

void write_account(JsonWriter& json, const Result& r) {
  uint32_t role = 0;
  json.objects("account", r.account.by_role, [&](const SpendTable& table) {
    const bool known = r.graph && role < r.graph->roles.size();
    json.member("rank", pipeline_rank(r, role));
    json.member("name", role_name(r, role));
    if (known) json.member("ranks", r.graph->roles[role].ranks);
    json.member("critical", role == r.account.critical_role);
    write_items(json, "items", table, [](Spend) { return true; });
    ++role;
  });
}

void write_critical_path(JsonWriter& json, const Result& r) {
  json.objects("critical_path", r.critical_path, [&](const PathSegment& segment) {
    const bool transfer = segment.kind == PathSegment::Kind::rendezvous;
    json.member("kind", transfer ? "transfer" : "rank");
    json.member("rank", pipeline_rank(r, segment.role));
    const auto id = static_cast<size_t>(segment.rendezvous);
    if (transfer && r.graph && id < r.graph->rendezvous.size()) {
      const Rendezvous& rendezvous = r.graph->rendezvous[id];
      const Work& work = r.graph->works[static_cast<size_t>(rendezvous.work)];
      if (work.kind == WorkKind::send_recv) {
        json.member("from", uint32_t{work.from});
        json.member("to", uint32_t{work.to});
      }
      json.member("label", r.graph->text(rendezvous.label));
    }
    json.member_time("begin", segment.begin);
    json.member_time("end", segment.end);
  });
}

void write_memory(JsonWriter& json, const Result& r) {
  json.object("memory", [&] {
    if (r.peak_role < r.memory.size() && r.reserved_role < r.memory.size()) {
      json.member("peak_bytes", r.memory[r.peak_role].memory.peak.value);
      json.member("peak_rank", pipeline_rank(r, r.peak_role));
      json.member("peak_op", r.memory[r.peak_role].peak_at);
      json.member("reserved_bytes", r.memory_reserved.value);
      json.member("reserved_rank", pipeline_rank(r, r.reserved_role));
    }
    json.member("usable_bytes", r.memory_usable.value);
    json.objects("device", r.device_memory, [&](const DeviceMemory& line) {
      json.member("what", line.what);
      json.member("bytes", line.bytes.value);
      json.member("source", line.source);
    });
    json.member("fits", r.fits);
    json.member("fits_share", r.fits_share);
    write_interval(json, r.reserved_interval);
    uint32_t role = 0;
    json.objects("by_rank", r.memory, [&](const RankMemory& stage) {
      json.member("rank", pipeline_rank(r, role++));
      json.member("name", stage.name);
      json.member("peak_bytes", stage.memory.peak.value);
      json.member("peak_op", stage.peak_at);
      json.member("reserved_bytes", stage.reserved.value);
      write_categories(json, stage.memory.at_peak);
      json.member("peak_in_flight", stage.memory.peak_in_flight);
      json.objects("activation_terms", stage.activation_terms, [&](const auto& term) {
        json.member("tensor", term.first);
        json.member("bytes", term.second.value);
      });
    });
  });
}

std::string run_json(const Result& result, std::string_view version,
                     const std::optional<StepEnergy>& energy) {
  return json_document([&](JsonWriter& json) {
    write_versions(json, version);
    write_result(json, result);
    if (energy) write_step_energy(json, *energy);
  });
}

std::string compare_json(std::span<const Result> results, std::span<const std::string> names,
                         size_t baseline, std::string_view version,
                         std::span<const LeftOut> left_out,
                         std::span<const std::optional<TrainingPlan>> whole_runs,
                         std::span<const std::optional<StepEnergy>> energies) {
  STEPCAST_CHECK(results.size() == names.size() && baseline < results.size(),
                 "a name for each result, and the baseline among them");
  return json_document([&](JsonWriter& json) {
    write_versions(json, version);
    json.member("baseline", names[baseline]);
    size_t i = 0;
    json.objects("cases", results, [&](const Result& result) {
      json.member("name", names[i]);
      write_result(json, result);
      if (i < whole_runs.size() && whole_runs[i])
        json.object("job", [&] { write_whole_run(json, *whole_runs[i]); });
      if (i < energies.size()) {
        if (energies[i])
          write_step_energy(json, *energies[i]);
        else
          json.member("energy", std::optional<double>{});
      }
      ++i;
    });
    json.objects("left_out", left_out, [&](const LeftOut& l) {
      json.member("name", l.name);
      json.objects("errors", l.problems, [&](const Diagnostic& d) { write_diagnostic(json, d); });
    });
  });
}

}  // namespace stepcast
