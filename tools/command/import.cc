// SPDX-License-Identifier: Apache-2.0
#include "tools/command/import.h"

#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "calibrate/table/write_table.h"
#include "report/json/writer.h"
#include "scenarios/cluster_section.h"
#include "stepcast/import_json.h"
#include "tools/command/calibrate/calibrate_input.h"
#include "tools/command/options.h"
#include "tools/command/output.h"
#include "topology/import/imported_topology.h"

namespace stepcast::cli {

std::string imported_remarks(const ImportedRun& run) {
  std::string text;
  for (const UnknownPlace& u : run.unknown)
    text += fmt::format("{}:{}:{}: unknown argument '{}': {}\n", escape_text(u.file), u.line,
                        u.column, escape_text(u.name),
                        u.near.empty() ? "whether it changes the cost is not known"
                                       : fmt::format("did you mean {}?", escape_text(u.near)));
  for (const std::string& note : run.notes) text += fmt::format("note: {}\n", escape_text(note));
  return text;
}

std::string imported_summary(const ImportedRun& run) {
  return fmt::format(
      "imported {} cost-relevant arguments ({} unknown, {} without effect on cost){}\n", run.used,
      run.unknown.size(), run.ignored,
      run.measured.empty() ? "" : " and " + escape_text(run.measured));
}

namespace {

namespace fs = std::filesystem;

// The cache of the Hub's client: models--ORG--NAME/refs/main names the folder below snapshots/.
fs::path snapshot_in(const fs::path& folder) {
  std::error_code none;
  if (!fs::is_directory(folder / "snapshots", none)) return folder;
  std::vector<fs::path> all;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / "snapshots", none))
    if (fs::exists(entry.path() / "config.json", none)) all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  if (all.size() > 1 && fs::exists(folder / "refs" / "main", none)) {
    std::string main = read_whole_file((folder / "refs" / "main").string());
    while (!main.empty() && (main.back() == '\n' || main.back() == '\r')) main.pop_back();
    for (const fs::path& path : all)
      if (path.filename() == main) return path;
  }
  return all.empty() ? folder : all.front();
}

// The name of the folder that a file lies in; of a snapshot in the Hub's cache that of the model.
std::string folder_of(const std::string& file) {
  const fs::path folder = fs::absolute(file).lexically_normal().parent_path();
  const std::string cached = folder.parent_path().parent_path().filename().string();
  if (folder.parent_path().filename() != "snapshots" || !cached.starts_with("models--"))
    return folder.filename().string();
  return cached.substr(cached.rfind("--") + 2);
}

}  // namespace

std::string config_in(const std::string& path) {
  std::error_code none;
  if (!fs::is_directory(path, none)) return path;
  const fs::path config = snapshot_in(path) / "config.json";
  return fs::exists(config, none) ? config.string() : path;
}

namespace {

// What an import names beside its file is read as it comes up.
std::function<std::optional<std::string>(std::string_view)> files_beside(const std::string& path,
                                                                         const Arguments& args) {
  return [folder = fs::path(path).parent_path(),
          &args](std::string_view name) -> std::optional<std::string> {
    constexpr std::uintmax_t kLargest = 1 << 20;
    if (fs::path(name).is_absolute()) return {};
    const fs::path file = folder / fs::path(name);
    std::error_code none;
    if (!fs::is_regular_file(file, none) || fs::file_size(file, none) > kLargest || none) return {};
    refuse_overwriting(std::vector{file.string()}, args);
    return read_whole_file(file.string());
  };
}

// A pipe without a writer would be waited for.
void refuse_special(const std::string& path) {
  std::error_code none;
  if (path == "-" || !fs::exists(path, none) || fs::is_regular_file(path, none)) return;
  throw file_error("E101",
                   fmt::format("cannot read '{}': it is {}", path,
                               fs::is_directory(path, none) ? "a directory" : "not a regular file"),
                   path);
}

}  // namespace

ImportRequest import_request(const Arguments& args, const std::string& kind,
                             const std::string& file) {
  ImportRequest request;
  const std::string path = kind == "hf" || kind == "auto" ? config_in(file) : file;
  request.kind = kind;
  request.file = shown_name(path);
  refuse_special(path);
  request.text = read_whole_file(path);
  if (path != "-") request.folder = folder_of(path);
  if (!args.model.empty()) {
    request.model_file = shown_name(config_in(args.model));
    refuse_special(config_in(args.model));
    request.model_text = read_whole_file(config_in(args.model));
  }
  if (!args.preset.empty()) {
    request.cluster.preset = args.preset;
    request.cluster.assumed = false;
  }
  request.cluster.gpu = args.gpu;
  request.given = args.given;
  if (path != "-") request.files = files_beside(path, args);
  request.set = parse_sets(args.set);
  return request;
}

int import_run_command(const Arguments& args) {
  const ImportRequest request = import_request(args, args.kind, args.file);
  const ImportedRun run = import_run(request);
  if (args.json) {
    write_stdout(import_json(run));
    return 0;
  }
  deliver(run.scenario, args.output, args.force);
  if (!args.quiet) write_stderr(imported_remarks(run) + imported_summary(run));
  return 0;
}

namespace {

constexpr const char* kImportFooter =
    "KIND and FILE, of the cluster (the section of a scenario):\n"
    "  nvidia-smi     what `nvidia-smi topo -m` prints: a node\n"
    "  nccl-topo      what NCCL writes to NCCL_TOPO_DUMP_FILE: a node, or an NVLink rack\n"
    "  ibnetdiscover  what `ibnetdiscover` prints: the fabric, and which host hangs where\n"
    "of a run (a whole scenario; comments say where each value is from):\n"
    "  auto           any of these, told by its content; of a folder, a table of what each\n"
    "                 file in it gives, or why it is refused\n"
    "  hf             Hugging Face's config.json\n"
    "  megatron-args  Megatron's arguments: a script, the list it prints, YAML or JSON\n"
    "  megatron-log   what Megatron prints: arguments, and measured iterations\n"
    "  bridge         the YAML of Megatron-Bridge, or a log with it, or NeMo's\n"
    "  nemo           NeMo's YAML, of its launcher too\n"
    "  torchtitan     its TOML, the JSON of --debug.save_config_file, or a log with "
    "--debug.print_config\n"
    "  deepspeed      its JSON, with --model config.json\n"
    "  accelerate     what `accelerate config` writes, with --model config.json\n"
    "  axolotl        its YAML; with --model config.json where no preset is its model's\n"
    "  nanotron       its YAML\n"
    "  gpt-neox       its YAML\n"
    "  primus         its YAML, in Primus's tree\n"
    "of kernels and collectives (a cost table of their rows, for `stepcast calibrate fit`):\n"
    "  nccl-tests     what all_reduce_perf and the others print, or write with -J\n"
    "  mamf           what mamf-finder.py prints: its best shapes\n"
    "  kineto         a trace of the PyTorch profiler, with record_shapes=True\n\n"
    "What a file does not tell (memory and rates of GPUs, latencies, the network of a node's\n"
    "file, the nodes of a fabric's) comes from the presets that are named; the comments of the\n"
    "section say so. A scenario takes it with `extends: cluster.yaml`.\n\n"
    "  stepcast import nvidia-smi topo.txt --preset dgx-h100 -o cluster.yaml\n"
    "  stepcast import megatron-args train.sh --preset dgx-a100-80g -o run.yaml";

constexpr std::array<std::string_view, 3> kTopologies{"nvidia-smi", "nccl-topo", "ibnetdiscover"};

bool among(const std::string& kind, std::span<const std::string_view> kinds) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

ImportedTopology read(const std::string& kind, const std::string& text, const std::string& file,
                      const Node& node) {
  if (kind == "nvidia-smi") return import_nvidia_smi(text, file, node.gpu.arch);
  if (kind == "nccl-topo") return import_nccl_xml(text, file);
  return import_ibnetdiscover(text, file);
}

// A section that says what the cluster is.
int import_topology(const Arguments& args) {
  if (args.preset.empty() && args.gpu.empty())
    usage_error("E003", "what the file does not tell has to come from a preset",
                "--preset names that of a cluster, --gpu that of a GPU; `stepcast presets` "
                "lists them");
  const Node node = preset_node(args.preset, args.gpu);
  const std::string text = read_whole_file(args.file);
  const std::string file = shown_name(args.file);
  const std::string section =
      cluster_section(read(args.kind, text, file, node), {file, args.kind, args.preset, args.gpu});
  if (args.json)
    write_stdout(json_document([&](JsonWriter& json) { json.member("section", section); }));
  else
    deliver(section, args.output, args.force);
  return 0;
}

// A cost table of the rows, without fits.
int import_measured(const Arguments& args) {
  const CalibrateInput in = read_measurements(args.file, args);
  const TableText& t = in.table;
  const std::string table = write_table(t);
  if (args.json) {
    write_stdout(json_document([&](JsonWriter& json) {
      json.member("table", table);
      json.values("notes", in.notes);
    }));
    return 0;
  }
  deliver(table, args.output, args.force);
  if (args.quiet) return 0;
  const size_t rows = t.gemms.size() + t.attentions.size() + t.memories.size() +
                      t.collectives.size() + t.copies.size();
  std::string remarks;
  for (const std::string& note : in.notes) remarks += fmt::format("note: {}\n", escape_text(note));
  write_stderr(fmt::format("{}imported {} {} for {}\n", remarks, rows, rows == 1 ? "row" : "rows",
                           escape_text(t.gpu)));
  return 0;
}

int import_command(const Arguments& args, const Terminal&) {
  if (args.kind == "auto") {
    if (std::error_code none; std::filesystem::is_directory(args.file, none))
      return import_folder(args);
    return import_run_command(args);
  }
  const bool run = among(args.kind, import_kinds());
  const bool measured = among(args.kind, measurement_kinds());
  const bool topology = among(args.kind, kTopologies);
  if (run || topology) refuse_measurement_options(args.measured, args.kind);
  if (run) return import_run_command(args);
  if (measured || topology) {
    refuse_scenario_options(args, args.file);
    if (!args.model.empty())
      usage_error("E003", "--model is for files of runs, and " + args.kind + " is none");
    return measured ? import_measured(args) : import_topology(args);
  }
  std::vector<std::string_view> kinds(kTopologies.begin(), kTopologies.end());
  for (const std::span<const std::string_view> more : {import_kinds(), measurement_kinds()})
    kinds.insert(kinds.end(), more.begin(), more.end());
  kinds.push_back("auto");
  parse_word("import of", args.kind, kinds);
  return kExitUsage;
}

}  // namespace

void add_import(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* sub =
      add_command(app, "import", "Write a scenario, or its cluster, from files of other tools",
                  chosen, import_command);
  sub->footer(kImportFooter);
  sub->add_option("KIND", args.kind, "of the file, see below")->required()->option_text(" ");
  add_file(sub, args, "FILE", "what the tool wrote; - is standard input");
  sub->add_option("VALUES", args.given, "of a script: NAME=VALUE, or its words $1, $2, ...")
      ->option_text(" ");
  sub->add_option("--preset", args.preset,
                  "cluster preset for what the file does not tell; of a run, by default dgx-h100")
      ->option_text("NAME");
  add_gpu(sub, args, "GPU preset, if it is not that of the cluster preset");
  sub->add_option("--model", args.model, "config.json, for files that do not say the model")
      ->option_text("FILE");
  add_set(sub, args, "batch.seq=4096");
  add_measurement_options(sub, args.measured);
  add_output(sub, args);
  add_common(sub, args);
}

}  // namespace stepcast::cli
