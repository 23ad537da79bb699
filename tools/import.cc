// SPDX-License-Identifier: Apache-2.0
// stepcast import KIND FILE: what a tool wrote about a cluster, as the section of a scenario.
#include "tools/import.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "report/json_writer.h"
#include "scenarios/cluster_section.h"
#include "tools/calibrate_input.h"
#include "tools/import_measured.h"
#include "tools/import_run.h"
#include "tools/output.h"
#include "topology/import_ibnetdiscover.h"
#include "topology/import_nccl_xml.h"
#include "topology/import_nvidia_smi.h"

namespace stepcast::cli {
namespace {

constexpr const char* kFooter =
    "KIND and FILE, of the cluster (the section of a scenario):\n"
    "  nvidia-smi     what `nvidia-smi topo -m` prints: a node\n"
    "  nccl-topo      what NCCL writes to NCCL_TOPO_DUMP_FILE: a node, or an NVLink rack\n"
    "  ibnetdiscover  what `ibnetdiscover` prints: the fabric, and which host hangs where\n"
    "of a run (a whole scenario; comments say where each value is from):\n"
    "  hf             Hugging Face's config.json\n"
    "  megatron-args  Megatron's arguments: a script, the list it prints, YAML or JSON\n"
    "  megatron-log   what Megatron prints: arguments, and measured iterations\n"
    "  bridge         the YAML of Megatron-Bridge and NeMo\n"
    "  torchtitan     the JSON that it writes with --debug.save_config_file\n"
    "  deepspeed      its JSON, with --model config.json\n"
    "  nanotron       its YAML\n"
    "of kernels and collectives (a cost table of their rows, for `stepcast calibrate fit`):\n"
    "  nccl-tests     what all_reduce_perf and the others print, or write with -J\n"
    "  mamf           what mamf-finder.py prints: its best shapes\n"
    "  kineto         a trace of the PyTorch profiler, with record_shapes=True\n"
    "  simumax        a system file of SimuMax\n"
    "  calculon       a system file of calculon\n\n"
    "What a file does not tell (memory and rates of GPUs, latencies, the network of a node's\n"
    "file, the nodes of a fabric's) comes from the presets that are named; the comments of the\n"
    "section say so. A scenario takes it with `extends: cluster.yaml`.";

ImportedTopology read(const std::string& kind, const std::string& text, const std::string& file,
                      const Node& node) {
  if (kind == "nvidia-smi") return import_nvidia_smi(text, file, node.gpu.arch);
  if (kind == "nccl-topo") return import_nccl_xml(text, file);
  return import_ibnetdiscover(text, file);
}

void check_kind(const std::string& kind) {
  for (const char* known : {"nvidia-smi", "nccl-topo", "ibnetdiscover"})
    if (kind == known) return;
  usage_error("E004", "there is no import of " + kind,
              "nvidia-smi, nccl-topo, ibnetdiscover, " + run_kinds() + ", " + measured_kinds());
}

int import_command(const Arguments& args, const Terminal&) {
  const ImportArguments& a = args.import;
  if (is_run_kind(a.kind)) return import_run_command(args);
  if (is_measured_kind(a.kind)) return import_measured_command(args);
  check_kind(a.kind);
  if (a.preset.empty() && a.gpu.empty())
    usage_error("E003", "what the file does not tell has to come from a preset",
                "--preset names that of a cluster, --gpu that of a GPU; `stepcast presets` "
                "lists them");
  const Node node = preset_node(a.preset, a.gpu);
  const std::string text = read_whole_file(a.file);
  const std::string file = a.file == "-" ? "<stdin>" : a.file;
  const std::string section =
      cluster_section(read(a.kind, text, file, node), {file, a.kind, a.preset, a.gpu});
  if (args.json) {
    JsonWriter json;
    json.begin_object();
    json.member("section", section);
    json.end_object();
    write_stdout(json.text() + '\n');
    return 0;
  }
  deliver(section, a.output, args.force);
  return 0;
}

}  // namespace

void add_import(CLI::App& app, Arguments& args, Command& command) {
  CLI::App* sub =
      app.add_subcommand("import", "Write a scenario, or its cluster, from files of other tools");
  sub->callback([&command] { command = import_command; });
  sub->footer(kFooter);
  ImportArguments& a = args.import;
  sub->add_option("KIND", a.kind, "of the file, see below")->required()->option_text(" ");
  sub->add_option("FILE", a.file, "what it wrote; - is standard input")
      ->required()
      ->option_text(" ");
  sub->add_option("--preset", a.preset, "cluster preset for what the file does not tell")
      ->option_text("NAME");
  sub->add_option("--gpu", a.gpu, "GPU preset, if it is not that of the cluster preset")
      ->option_text("NAME");
  sub->add_option("--model", a.model, "config.json, for files that do not say the model")
      ->option_text("FILE");
  sub->add_option("-s,--set", args.set, "state a value of the scenario: -s batch.seq=4096")
      ->allow_extra_args(false)
      ->option_text("PATH=VALUE");
  add_measurement_options(sub, args.calibrate);
  sub->add_option("-o,--output", a.output, "write to a file")->option_text("FILE");
  sub->add_flag("--force", args.force, "overwrite existing outputs");
  add_common(sub, args);
}

}  // namespace stepcast::cli
