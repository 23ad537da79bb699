// SPDX-License-Identifier: Apache-2.0
#include "job/job.h"

#include <fmt/format.h>

#include <embedded/fleet_files.h>
#include <algorithm>

#include "job/figures.h"
#include "scenarios/document/number.h"
#include "scenarios/schema/values.h"
#include "sim/csv.h"
#include "sim/text.h"

namespace stepcast {

namespace {

// What is read of the section, and what is wrong with it.
class JobReader {
 public:
  JobReader(const Value& section, Problems& problems)
      : problems_(problems), v_(around(section), "", problems) {}

  Job read() {
    Job job;
    if (v_.has("job.tokens")) job.tokens = static_cast<double>(v_.whole("job.tokens"));
    if (const Value* price = v_.value("job.price"); price != nullptr)
      job.price = read_price(*price, problems_);
    read_failures(job);
    read_checkpoint(job);
    read_power(job);
    read_rampup(job);
    read_evaluation(job);
    return job;
  }

 private:
  static Value around(const Value& section) {
    Value root;
    root.kind = Value::Kind::mapping;
    root.mark = section.mark;
    Member& job = root.members.emplace_back();
    job.key = "job";
    job.key_mark = section.mark;
    job.value = section;
    return root;
  }

  std::optional<double> seconds(KeyOf<Time> key) const {
    if (!v_.has(key)) return {};
    return to_seconds(v_.get<Time>(key));
  }

  // "500 steps" or a time.
  Often read_often(KeyOf<std::string> key) {
    Often often;
    if (!v_.has(key)) return often;
    const std::string& text = v_.text(key);
    Value value = v_.value(key) != nullptr ? *v_.value(key) : scalar_value(text);
    constexpr std::string_view kSteps = "steps";
    Problems ignored;
    Problems& problems = v_.value(key) != nullptr ? problems_ : ignored;
    if (text.ends_with(kSteps)) {
      value.text =
          std::string(trim(std::string_view(text).substr(0, text.size() - kSteps.size()), " "));
      value.quoted = false;
      if (const auto steps = read_whole(value, last_word(key.path()), problems, 1))
        often.steps = static_cast<double>(*steps);
    } else if (v_.value(key) != nullptr && parse_index(text)) {
      v_.refuse("E120", key, fmt::format("'{}' needs a unit", last_word(key.path())),
                fmt::format("write {0} steps, or a time: {0}min or {0}h", text));
    } else if (const auto time = read_time(value, last_word(key.path()), problems, true)) {
      often.seconds = to_seconds(*time);
    }
    return often;
  }

  void read_failures(Job& job) {
    job.warmup = seconds("job.failures.warmup").value_or(0);
    job.mtbf = seconds("job.failures.mtbf");
    if (v_.has("job.spares")) job.spares = v_.whole("job.spares");
    const bool rated = v_.has("job.failures.per_node_day");
    const bool says_rate = v_.given("job.failures.per_node_day");  // right or wrong
    const bool listed = v_.value("job.failures.causes") != nullptr;
    if (job.mtbf && (says_rate || listed || v_.given("job.failures.per_job_day") ||
                     v_.given("job.failures.fleet")))
      v_.refuse("E127", "job.failures.mtbf", "mtbf is beside rates that say the same",
                "either mtbf, of the whole job, or per_node_day and per_job_day, or causes");
    if (listed &&
        (says_rate || v_.given("job.failures.per_job_day") || v_.given("job.failures.fleet")))
      v_.refuse("E127", "job.failures.causes", "causes are beside a rate of all of them",
                "each cause has its per_node_day, per_job_day");
    JobCause all;
    all.name = "interruption";
    all.restart = seconds("job.failures.restart").value_or(0);
    const auto detect = seconds("job.failures.detect"),
               spare = seconds("job.failures.replace.spare"), init = seconds("job.failures.init");
    if (detect || spare || init) {
      if (v_.given("job.failures.restart"))
        v_.refuse("E127", "job.failures.restart", "restart is beside its own parts",
                  "restart is detect, replace and init together: either it or these");
      all.restart = detect.value_or(0) + spare.value_or(0) + init.value_or(0);
    }
    job.says_restart = detect || spare || init || v_.given("job.failures.restart");
    all.repair = seconds("job.failures.replace.repair").value_or(0);
    if (listed) {
      read_causes(job, all);
    } else {
      if (rated) {
        all.per_node_day = v_.real("job.failures.per_node_day");
      } else if (!job.mtbf) {
        read_fleet(job);
        if (job.fleet != nullptr) all.per_node_day = job.fleet->per_node_day;
      }
      job.causes = {all};
      double rate = 0;
      v_.read("job.failures.per_job_day", rate);
      if (rate > 0) {
        JobCause whole = all;
        whole.name = "interruption of the whole job";
        whole.per_node_day = 0;
        whole.per_job_day = rate;
        whole.takes_node = false;
        whole.repair = 0;
        job.causes.push_back(whole);
      }
    }
    const bool repairs =
        std::ranges::any_of(job.causes, [](const JobCause& c) { return c.repair > 0; });
    if (job.spares && !repairs)
      v_.refuse("E126", "job.spares", "spares need how long a node that failed is away",
                "job: {failures: {replace: {repair: 1d}}}");
  }

  void read_fleet(Job& job) {
    if (!v_.has("job.failures.fleet")) return;
    const std::string& name = v_.text("job.failures.fleet");
    std::vector<std::string> names;
    for (const Fleet& f : fleets()) {
      names.push_back(f.name);
      if (f.name == name) job.fleet = &f;
    }
    if (job.fleet == nullptr)
      v_.refuse("E125", "job.failures.fleet", "there is no fleet '" + escape_text(name) + '\'',
                "it can be " + or_list(names) + "; or state per_node_day or mtbf");
  }

  void read_causes(Job& job, const JobCause& all) {
    bool all_stated = true;
    for (const Value& item : v_.value("job.failures.causes")->items) {
      FieldValues c(item, "job.failures.causes[]", problems_);
      JobCause cause = all;
      const auto time = [&](KeyOf<Time> key) -> std::optional<double> {
        if (!c.has(key)) return {};
        return to_seconds(c.get<Time>(key));
      };
      cause.name = c.has("job.failures.causes[].name")
                       ? c.text("job.failures.causes[].name")
                       : fmt::format("cause {}", job.causes.size() + 1);
      c.read("job.failures.causes[].per_node_day", cause.per_node_day);
      c.read("job.failures.causes[].per_job_day", cause.per_job_day);
      const auto detect = time("job.failures.causes[].detect"),
                 replace = time("job.failures.causes[].replace"),
                 init = time("job.failures.causes[].init");
      if (detect || replace || init)
        cause.restart = detect.value_or(0) + replace.value_or(0) + init.value_or(0);
      else
        all_stated = false;
      if (const auto repair = time("job.failures.causes[].repair")) {
        cause.repair = *repair;
        cause.takes_node = *repair > 0;
      } else if (cause.per_node_day == 0) {
        cause.takes_node = false;
        cause.repair = 0;
      }
      if (cause.per_node_day + cause.per_job_day <= 0)
        problems_.add("E126", "'" + cause.name + "' does not say how often it comes", item.mark, 1,
                      {}, "per_node_day or per_job_day, above 0");
      job.causes.push_back(std::move(cause));
    }
    job.says_restart = job.says_restart || all_stated;
    if (job.causes.empty())
      v_.refuse("E125", "job.failures.causes", "there are no causes in the list",
                "{name: GPU, per_node_day: 0.002, detect: 2min, replace: 3min}");
  }

  void read_checkpoint(Job& job) {
    if (v_.has("job.checkpoint.every") && v_.text("job.checkpoint.every") != "auto") {
      job.every = read_often("job.checkpoint.every");
      job.automatic = !job.every.stated();
    }
    v_.read("job.checkpoint.mode", job.async);
    if (v_.has("job.checkpoint.write_bw"))
      job.write_bw = v_.get<Bandwidth>("job.checkpoint.write_bw").value;
    if (v_.has("job.checkpoint.read_bw"))
      job.read_bw = v_.get<Bandwidth>("job.checkpoint.read_bw").value;
    job.block = seconds("job.checkpoint.block");
    job.save = seconds("job.checkpoint.save");
    job.load = seconds("job.checkpoint.load");
    if (v_.has("job.checkpoint.memory_copies"))
      job.memory_copies = v_.whole("job.checkpoint.memory_copies");
    job.memory_every = read_often("job.checkpoint.memory_every");
    job.memory_block = seconds("job.checkpoint.memory_block").value_or(0);
    job.memory_load = seconds("job.checkpoint.memory_load").value_or(0);
    for (const Key key : {Key("job.checkpoint.memory_every"), Key("job.checkpoint.memory_block"),
                          Key("job.checkpoint.memory_load")})
      if (v_.value(key) != nullptr && v_.value("job.checkpoint.memory_copies") == nullptr)
        v_.refuse(
            "E126", key,
            fmt::format("{} is of copies in memory, and there are none", last_word(key.path())),
            "memory_copies: 2, or leave it out");
    if (!job.automatic && job.every.seconds > 0 && job.memory_every.seconds > job.every.seconds &&
        job.memory_copies)
      v_.refuse("E127", "job.checkpoint.memory_every",
                "copies in memory are made less often than checkpoints on storage, so none is used",
                "memory_every below every");
    if (job.block && job.save && *job.block > *job.save)
      v_.refuse("E127", "job.checkpoint.block",
                "training stands longer at a checkpoint than saving one takes",
                "block is the part of save in which steps stand");
  }

  void read_power(Job& job) {
    if (v_.has("job.power.node")) job.node_power = v_.get<Power>("job.power.node").value;
    if (v_.has("job.power.pue")) {
      job.pue = v_.real("job.power.pue");
      if (*job.pue < 1)
        v_.refuse("E125", "job.power.pue",
                  "a building takes at least what its computers take, so pue is 1 or more",
                  "for example: pue: 1.2");
    }
    if (const Value* carbon = v_.value("job.carbon"); carbon != nullptr) {
      std::string_view text = carbon->text;
      constexpr std::string_view kUnit = "g/kWh";
      std::optional<double> grams;
      if (text.ends_with(kUnit)) {
        text.remove_suffix(kUnit.size());
        grams = parse_number<double>(trim(text, " "));
      }
      if (!grams || !(*grams >= 0 && *grams < 1e6))
        v_.refuse("E120", "job.carbon",
                  '\'' + escape_text(carbon->text) + "' is no intensity of CO2",
                  "grams of CO2 for a kWh: 385g/kWh");
      else
        job.carbon = grams;
    }
  }

  void read_rampup(Job& job) {
    const Value* list = v_.value("job.rampup");
    if (list == nullptr) return;
    if (list->kind != Value::Kind::sequence)
      v_.refuse("E107", "job.rampup", "a ramp is a list of its parts",
                "rampup: [{tokens: 10B, batch: 64}]");
    int64_t number = 0;
    for (const Value& item : list->items) {
      FieldValues c(item, "job.rampup[]", problems_);
      JobPhase phase;
      phase.number = ++number;
      phase.section = item;
      if (!c.require("job.rampup[].tokens", "how many tokens are trained on so") ||
          !c.has("job.rampup[].tokens"))
        continue;
      phase.tokens = static_cast<double>(c.whole("job.rampup[].tokens"));
      if (c.has("job.rampup[].batch")) phase.batch = c.whole("job.rampup[].batch");
      if (c.has("job.rampup[].seq")) phase.seq = c.whole("job.rampup[].seq");
      job.rampup.push_back(phase);
    }
    double ramp = 0;
    for (const JobPhase& phase : job.rampup) ramp += phase.tokens;
    if (job.tokens && ramp >= *job.tokens)
      v_.refuse("E127", "job.rampup", "the ramp takes more tokens than the training has",
                "the rest is trained on with the batch of the step");
  }

  void read_evaluation(Job& job) {
    if (v_.value("job.evaluation") == nullptr) return;
    job.evaluate_every = read_often("job.evaluation.every");
    if (const auto takes = seconds("job.evaluation.takes")) job.evaluation = *takes;
    if (v_.value("job.evaluation.every") == nullptr || v_.value("job.evaluation.takes") == nullptr)
      v_.refuse("E126", "job.evaluation", "evaluation needs how often and how long",
                "evaluation: {every: 1000 steps, takes: 5min}");
  }

  Problems& problems_;
  FieldValues v_;
};

}  // namespace

std::vector<Fleet> parse_fleets(std::string_view text) {
  std::vector<Fleet> all;
  for (const CsvRow& row : csv_rows(text, "fleet,per_node_day,low,high,gpus_per_node,known")) {
    Fleet f{std::string(row.cells[0]),
            row.number(1),
            row.number(2),
            row.number(3),
            row.number<int64_t>(4),
            assumed_figure(row.cells[5])};
    if (f.name.empty() || !(f.low > 0 && f.low <= f.per_node_day && f.per_node_day <= f.high) ||
        f.gpus_per_node < 1)
      refuse("'" + f.name + "': no rate of failures");
    all.push_back(std::move(f));
  }
  return all;
}

const std::vector<Fleet>& fleets() {
  static const std::vector<Fleet> all = parse_fleets(fleet_files()[0].second);
  return all;
}

Job read_job(const ScenarioDocument& document, Problems& problems) {
  const Value* section = document.tree().find("job");
  Value none;
  none.kind = Value::Kind::mapping;
  none.mark = document.tree().mark;
  if (section == nullptr || !section->is_mapping()) section = &none;
  Job job = JobReader(*section, problems).read();
  job.section = *section;
  return job;
}

Job read_job(const ScenarioDocument& document) {
  Problems problems;
  Job job = read_job(document, problems);
  problems.throw_if_any();
  return job;
}

JobPlace place_in_job(const Job& job, std::string_view key) {
  const Value* at = &job.section;
  for (std::string_view rest = key; !rest.empty();) {
    const size_t dot = rest.find('.');
    const Value* next = at->find(rest.substr(0, dot));
    if (next == nullptr) break;
    at = next;
    rest = dot == std::string_view::npos ? std::string_view{} : rest.substr(dot + 1);
  }
  return {at->mark, at->is_scalar() ? std::max(1, static_cast<int>(at->text.size())) : 1};
}

void refuse_job(const Job& job, std::string_view key, std::string message, std::string help) {
  const JobPlace at = place_in_job(job, key);
  Problems problems;
  problems.add("E127", std::move(message), at.mark, at.length, {}, std::move(help));
  throw InputError(problems.diagnostics());
}

}  // namespace stepcast
