// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/import_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "scenarios/cluster_section.h"
#include "scenarios/document/files.h"
#include "scenarios/frameworks/importers.h"
#include "scenarios/resolve/resolve.h"
#include "scenarios/scenario.h"
#include "scenarios/schema/tree.h"
#include "scenarios/schema/values.h"
#include "sim/check.h"
#include "sim/saturating.h"
#include "sim/text.h"

namespace stepcast {
namespace {

using Importer = void (*)(const ImportSources&, const ImportCluster&, ScenarioDraft&,
                          ImportCounts&);
constexpr std::array<std::string_view, 12> kKinds{
    "hf",        "megatron-args", "megatron-log", "bridge",   "nemo",     "torchtitan",
    "deepspeed", "accelerate",    "axolotl",      "nanotron", "gpt-neox", "primus"};
constexpr std::array<Importer, kKinds.size()> kImporters{
    import_hf,      import_megatron_args, import_megatron_log, import_bridge,
    import_nemo,    import_torchtitan,    import_deepspeed,    import_accelerate,
    import_axolotl, import_nanotron,      import_neox,         import_primus};

// Names that files of every model have.
constexpr std::array<std::string_view, 8> kUsualNames{
    "config", "model_config", "ds_config", "pretrain", "train", "run", "deepspeed", "params"};

// What the run is called: the file without its ending and without "config", or, if every model's
// file has that name, the folder that it lies in.
std::string name_of_run(const ImportRequest& request) {
  const std::string& file = request.file;
  const size_t slash = file.rfind('/');
  std::string name = file.substr(slash + 1);
  const size_t dot = name.rfind('.');
  if (dot != std::string::npos && dot > 0) name.erase(dot);
  if (name == "<stdin>") return "imported";
  if (std::find(kUsualNames.begin(), kUsualNames.end(), name) != kUsualNames.end()) {
    std::string folder = request.folder;
    if (folder.empty() && slash != std::string::npos && slash > 0)
      folder = file.substr(file.rfind('/', slash - 1) + 1, slash - file.rfind('/', slash - 1) - 1);
    if (!folder.empty() && folder != "." && folder != "..") return folder;
  }
  for (const std::string_view ending : {"_config", ".config", "-config"})
    if (name.ends_with(ending) && name.size() > ending.size())
      name.erase(name.size() - ending.size());
  return name.empty() ? "imported" : name;
}

// "inf", "-.Inf", "NaN": numbers to YAML, but to no key of a scenario.
bool is_infinite_or_nan(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  if (text.starts_with('.')) text.remove_prefix(1);
  const std::string word = lower_case(text);
  return word == "inf" || word == "infinity" || word == "nan";
}

// Loads the scenario that was written, and reports what is wrong with it as problems of the file
// that was imported.
class WrittenCheck {
 public:
  WrittenCheck(Problems& problems, SourceRef file, const ImportCluster& cluster,
               const DraftText& written)
      : problems_(problems), file_(std::move(file)), cluster_(cluster), written_(written) {}

  void run() {
    refuse_unreadable();
    refuse_what_does_not_load();
    problems_.throw_if_any();
  }

  // What the written scenario says; 0 where it cannot be simulated yet, for the reason given.
  int64_t parameters() const { return parameters_; }
  int64_t gpus() const { return gpus_; }
  const std::string& unsupported() const { return unsupported_; }

 private:
  const DraftValue* value_at(int line) const {
    const auto at = static_cast<size_t>(line);
    return line > 0 && at < written_.of_line.size() ? written_.of_line[at] : nullptr;
  }

  // Where the value on this line comes from; for a line that opens a section ("model:"), the file
  // that the section comes from.
  Mark origin_of(int line) const {
    if (const DraftValue* v = value_at(line))
      return v->origin.mark.source == nullptr ? Mark{file_, 0, 0} : v->origin.mark;
    for (size_t at = static_cast<size_t>(line); line > 0 && at < written_.of_line.size(); ++at)
      if (const DraftValue* v = written_.of_line[at])
        return {v->origin.mark.source == nullptr ? file_ : v->origin.mark.source, 1, 1};
    return {file_, 0, 0};
  }

  // A value that was legal in its own file may be nested too deeply or be too long for a scenario.
  void refuse_unreadable() {
    Problems reading;
    const Value tree = parse_yaml(reading, reading.add_source({"written", written_.text}));
    if (reading.any())
      problems_.add("E331",
                    fmt::format("what this file says cannot be written as a scenario: {}",
                                reading.diagnostics().front().message),
                    {file_, 0, 0});
    refuse_infinite(tree);
    problems_.throw_if_any();
  }

  void refuse_infinite(const Value& value) {
    if (value.is_scalar() && !value.quoted && is_infinite_or_nan(value.text)) {
      const DraftValue* v = value_at(value.mark.line);
      problems_.add("E331",
                    fmt::format("'{}' must be a finite number, not '{}'",
                                v == nullptr ? "a value" : v->path, value.text),
                    origin_of(value.mark.line), static_cast<int>(value.text.size()));
    }
    for (const Value& item : value.items) refuse_infinite(item);
    for (const Member& m : value.members) refuse_infinite(m.value);
  }

  void refuse_what_does_not_load() {
    LoadOptions options;
    options.root = "/nonexistent";  // files that the scenario names are not read
    try {
      const Scenario s = load_scenario_text(written_.text, "imported", options);
      parameters_ = stepcast::parameters(s.model);
      gpus_ = s.cluster.gpus();
    } catch (const InputError& e) {
      for (const Diagnostic& d : e.diagnostics) {
        refuse(d);
        if (d.code == "E130" && unsupported_.empty()) unsupported_ = d.message;
      }
    }
  }

  void refuse(const Diagnostic& d) {
    // A scenario may say what is not supported yet, and name files that lie beside its later place.
    for (const std::string_view code : {"E130", "E101", "E106", "E111"})
      if (d.code == code) return;
    const DraftValue* v = value_at(d.line);
    std::string note = d.note;
    if (v != nullptr)
      note = fmt::format("{}{}the scenario would say {}: {}", note, note.empty() ? "" : "; ",
                         v->path, v->value);
    std::string help = d.help;
    if (d.code == "E230" && cluster_.assumed)
      help = fmt::format("{} is assumed; --preset names the cluster", cluster_.preset);
    else if (help.empty() && v != nullptr)
      help = fmt::format("-s {}=VALUE states another value", v->path);
    problems_.add(d.code, d.message, origin_of(d.line), d.length, d.label, std::move(help),
                  std::move(note));
  }

  Problems& problems_;
  const SourceRef file_;
  const ImportCluster& cluster_;
  const DraftText& written_;
  int64_t parameters_ = 0, gpus_ = 0;
  std::string unsupported_;
};

}  // namespace

namespace {

[[noreturn]] void refuse_mistaken(const MistakenFile& mistaken, const std::string& file) {
  throw file_error("E330", "this is " + mistaken.what, file, mistaken.help);
}

// Windows' editors put a byte order mark before a text.
std::string without_mark(const std::string& text) {
  return text.starts_with("\xEF\xBB\xBF") ? text.substr(3) : text;
}

std::string_view kind_of_file_or_refuse(const ImportRequest& request) {
  const std::string_view kind = kind_of_file(request.text);
  if (!kind.empty()) return kind;
  if (const auto mistaken = mistaken_file(request.text, "auto", request.file))
    refuse_mistaken(*mistaken, request.file);
  std::string help =
      "name the kind: " + join(std::vector<std::string_view>(kKinds.begin(), kKinds.end()));
  // What is wrong with a text that looks like keys and values may be why.
  Problems as_yaml;
  std::vector<RepeatedKey> repeated;
  parse_foreign_yaml(as_yaml, as_yaml.add_source({request.file, without_mark(request.text)}),
                     repeated);
  if (as_yaml.any() && request.text.find(": ") != std::string::npos) {
    const Diagnostic d = as_yaml.diagnostics().front();
    help += fmt::format("; as YAML or JSON it is wrong in line {}: {}", d.line, d.message);
  }
  throw file_error("E330", "which tool this file is of cannot be told from its content",
                   request.file, help);
}

}  // namespace

void read_old_numbers(Value& value) {
  for (Value& item : value.items) read_old_numbers(item);
  for (Member& m : value.members) read_old_numbers(m.value);
  const std::string& text = value.text;
  if (!value.is_scalar() || value.quoted || text.size() < 2 || text[0] != '0') return;
  const bool hexadecimal = text[1] == 'x';
  std::string digits = text.substr(hexadecimal ? 2 : 1);
  std::erase(digits, '_');
  int64_t n = 0;
  const char* const end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, n, hexadecimal ? 16 : 8);
  if (error == std::errc() && at == end && n >= 0) value.text = fmt::format("{}", n);
}

std::span<const std::string_view> import_kinds() {
  return kKinds;
}

bool says_the_run(std::span<const std::pair<std::string, std::string>> set) {
  const auto states = [&](std::string_view section, std::string_view key) {
    return std::ranges::any_of(set,
                               [&](const auto& s) { return s.first == section || s.first == key; });
  };
  return states("cluster", "cluster.preset") && states("batch", "batch.global");
}

namespace {

// How many replicas of the model a scenario trains, its batch not looked at; nothing where that
// cannot be made out.
std::optional<int64_t> replicas_of(const std::string& scenario) {
  Problems problems;
  Value root = parse_yaml(problems, problems.add_source({"written", scenario}));
  if (problems.any() || !apply_cluster_presets(root, problems)) return {};
  std::erase_if(root.members,
                [](const Member& m) { return m.key != "cluster" && m.key != "parallel"; });
  FieldValues values(std::move(root), "", problems);
  std::vector<std::string> warnings;
  const std::optional<Cluster> cluster = resolve_cluster(values, problems, warnings);
  if (!cluster || problems.any()) return {};
  const auto size = [&](KeyOf<int64_t> key) { return values.has(key) ? values.whole(key) : 1; };
  const int64_t of_one = saturating_product(
      saturating_product(size("parallel.tp"), size("parallel.cp")), size("parallel.pp"));
  const int64_t gpus = cluster->gpus();
  if (of_one < 1 || gpus % of_one != 0) return {};
  return gpus / of_one;
}

// What was assumed, to the last problem: it may explain why the run is refused.
[[noreturn]] void rethrow_with_notes(InputError error, const std::vector<std::string>& notes) {
  std::string& note = error.diagnostics.back().note;
  for (const std::string& n : notes) note += (note.empty() ? "" : "; ") + n;
  throw InputError(std::move(error.diagnostics));
}

}  // namespace

ImportedRun import_run(const ImportRequest& request) {
  const std::string_view name =
      request.kind == "auto" ? kind_of_file_or_refuse(request) : std::string_view(request.kind);
  size_t kind = 0;
  while (kind < kKinds.size() && kKinds[kind] != name) ++kind;
  STEPCAST_CHECK(kind < kKinds.size(), "no such kind: " + request.kind);

  Problems problems;
  const SourceRef file = problems.add_source({request.file, without_mark(request.text)});
  SourceRef config;
  if (!request.model_file.empty())
    config = problems.add_source({request.model_file, without_mark(request.model_text)});
  ScenarioDraft draft;
  ImportCounts counts;
  draft.set("schema", int64_t{1}, "");
  draft.set_text("name", name_of_run(request), "");
  std::vector<std::string> warnings;
  kImporters[kind]({problems, file, config, request.set, request.given, &warnings, request.files,
                    request.folder},
                   request.cluster, draft, counts);
  for (std::string& warning : warnings) draft.note(std::move(warning));
  for (const auto& [path, value] : request.set) draft.override_with(path, value);
  draft.settle_batch(replicas_of(draft.text({}).text));
  try {
    problems.throw_if_any();
  } catch (InputError& e) {
    if (const auto mistaken = mistaken_file(request.text, name, request.file))
      refuse_mistaken(*mistaken, request.file);
    rethrow_with_notes(std::move(e), draft.notes());
  }

  ImportedRun run;
  run.used = counts.used;
  run.ignored = counts.ignored;
  for (const UnknownArgument& u : counts.unknown)
    run.unknown.push_back({u.written, u.mark.source == nullptr ? request.file : u.mark.source->name,
                           u.mark.line, u.mark.column, u.near});
  run.notes = draft.notes();
  run.measured = counts.measured;
  run.kind = name;
  std::string head = fmt::format("A scenario from {} ({}).", escape_text(request.file), run.kind);
  for (const UnknownPlace& u : run.unknown)
    head +=
        fmt::format("\n- not understood: {} in line {}{}{}", escape_text(u.name), u.line,
                    u.file == request.file ? "" : fmt::format(" of {}", escape_text(u.file)),
                    u.near.empty() ? "" : fmt::format("; did you mean {}?", escape_text(u.near)));
  const DraftText written = draft.text(head);
  WrittenCheck check(problems, file, request.cluster, written);
  try {
    check.run();
  } catch (InputError& e) {
    rethrow_with_notes(std::move(e), run.notes);
  }
  run.parameters = check.parameters();
  run.gpus = check.gpus();
  run.unsupported = check.unsupported();
  run.scenario = written.text;
  return run;
}

// --- what several importers need

void ImportCounts::add(const ArgumentReader& reader) {
  used += reader.used();
  ignored += reader.ignored();
  unknown.insert(unknown.end(), reader.unknown().begin(), reader.unknown().end());
}

bool ImportSources::states(std::string_view path) const {
  return std::any_of(set.begin(), set.end(), [&](const auto& s) { return s.first == path; });
}

bool ImportSources::states_any_of(std::string_view path) const {
  const auto is_in = [](std::string_view a, std::string_view section) {
    return a.starts_with(section) && (a.size() == section.size() || a[section.size()] == '.');
  };
  return std::ranges::any_of(
      set, [&](const auto& s) { return is_in(s.first, path) || is_in(path, s.first); });
}

std::string ImportSources::stated(std::string_view path) const {
  for (const auto& [key, value] : set)
    if (key == path) return value;
  return {};
}

void note_repeated(const ImportSources& in, const std::vector<RepeatedKey>& repeated) {
  if (in.warnings == nullptr) return;
  for (const RepeatedKey& r : repeated)
    in.warnings->push_back(
        fmt::format("'{}' is given again in line {}{}, with {}", r.key, r.mark.line,
                    r.mark.source == in.file ? "" : fmt::format(" of {}", r.mark.source->name),
                    r.changes ? "another value, which counts" : "the same value"));
}

Value read_mapping(const ImportSources& in, const SourceRef& source, const std::string& what) {
  const bool clean = !in.problems.any();
  std::vector<RepeatedKey> repeated;
  Value value = parse_foreign_yaml(in.problems, source, repeated);
  read_old_numbers(value);
  note_repeated(in, repeated);
  if (value.is_mapping()) return value;
  if (clean && !in.problems.any())
    in.problems.add("E330",
                    fmt::format("{} is a mapping of names to values, and this is none", what),
                    {source, 1, 1});
  value = {};
  value.kind = Value::Kind::mapping;
  return value;
}

Value word_value(std::string text, const Mark& mark) {
  Value v;
  v.kind = Value::Kind::scalar;
  v.mark = mark;
  v.text = std::move(text);
  return v;
}

std::vector<Argument> flatten(const Value& value) {
  std::vector<Argument> all;
  for (const Member& m : value.members) {
    if (!m.value.is_mapping()) {
      all.push_back({argument_name(m.key), m.key, m.value});
      if (all.back().value.mark.line == 0) all.back().value.mark = m.key_mark;
      continue;
    }
    for (Argument& inner : flatten(m.value)) {
      inner.name = fmt::format("{}.{}", argument_name(m.key), inner.name);
      inner.written = fmt::format("{}.{}", m.key, inner.written);
      all.push_back(std::move(inner));
    }
  }
  return all;
}

namespace {

// How many GPUs a node of the job has; nothing: no number makes the job of nodes that are nearly
// as large as those of the preset.
std::optional<int64_t> gpus_of_nodes(const Node& node, int64_t gpus, std::optional<int64_t> each) {
  if (gpus <= node.gpus && (node.hosts > 1 || !each || *each >= gpus)) return gpus;
  // What a file calls a node is a host of a rack.
  if (node.hosts == 1 && each && *each <= node.gpus && gpus % *each == 0) return *each;
  const int64_t of_a_host = node.gpus / node.hosts;
  for (const int64_t step : {of_a_host, int64_t{1}})
    for (int64_t fewer = node.gpus; 2 * fewer >= node.gpus; fewer -= step)
      if (gpus % fewer == 0) return fewer;
  return {};
}

}  // namespace

void draft_cluster(const ImportCluster& cluster, int64_t gpus, const Origin& origin,
                   ScenarioDraft& draft, std::optional<int64_t> each) {
  const Node node = preset_node(cluster.preset, cluster.gpu);
  const std::string preset = yaml_text(cluster.preset);
  if (cluster.assumed)
    draft.assume("cluster.preset", preset,
                 "the file names no hardware; -s cluster=PRESET chooses it");
  else
    draft.set("cluster.preset", preset, "--preset");
  const std::optional<int64_t> of_nodes = gpus_of_nodes(node, gpus, each);
  const int64_t per_node = of_nodes.value_or(node.gpus);
  const int64_t nodes = (gpus + per_node - 1) / per_node;
  draft.set("cluster.nodes", nodes,
            {fmt::format("{} {}: {}", gpus, gpus == 1 ? "GPU" : "GPUs", origin.text), origin.mark});
  if (!of_nodes)
    draft.note_about("cluster.nodes", fmt::format("{} GPUs fill no whole nodes of {}: {} are taken",
                                                  gpus, per_node, nodes * per_node));
  if (!cluster.gpu.empty()) draft.set("cluster.node.gpu", yaml_text(cluster.gpu), "--gpu");
  if (per_node == node.gpus) return;
  draft.set("cluster.node.gpus", per_node, origin);
  const auto as_many = [&](int64_t of_node) {
    return std::max<int64_t>(1, of_node * per_node / node.gpus);
  };
  const char* const why = "as many for each GPU as the preset's nodes have";
  if (nodes > 1 || node.hosts > 1) draft.set("cluster.node.nics.count", as_many(node.nics), why);
  if (node.hosts == 1) return;
  const int64_t hosts = as_many(node.hosts);
  if (per_node % hosts == 0)
    draft.set("cluster.node.hosts", hosts, why);
  else
    draft.set("cluster.node.hosts", int64_t{1}, "the GPUs fill no whole hosts");
}

FsdpStrategy fsdp_strategy(std::string_view word) {
  const std::string strategy = lower_case(word);
  FsdpStrategy s;
  s.none = strategy == "no_shard" || strategy == "3";
  s.hybrid = strategy.starts_with("hybrid") || strategy == "4" || strategy == "5";
  s.keeps = strategy == "shard_grad_op" || strategy == "2" || strategy == "hybrid_shard_zero2" ||
            strategy == "_hybrid_shard_zero2" || strategy == "5";
  return s;
}

int64_t usual_sequence(int64_t max_positions) {
  constexpr int64_t kUsual = 4096;
  return max_positions > 0 ? std::min(max_positions, kUsual) : kUsual;
}

}  // namespace stepcast
