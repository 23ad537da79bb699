// SPDX-License-Identifier: Apache-2.0
// The long answers: where every setting, byte, idle picosecond and price comes from.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/format.h"
#include "report/json/writer.h"
#include "report/text/cells.h"
#include "sim/graph/price.h"
#include "sim/graph/work.h"
#include "sim/results/link_loads.h"
#include "sim/results/result.h"
#include "sim/units.h"

namespace stepcast {

// --- Settings, memory, bubbles, the critical path, costs

// One resolved value of the scenario, as text.
struct SettingLine {
  std::string path, value, origin;
};

// One line a setting: path, value, where it comes from.
std::string explain_settings(std::span<const SettingLine> settings, const TextStyle& style = {});

// s*b*h of one layer of a role's chunks, in elements: with it the activation terms are also given
// as the coefficient of s*b*h a layer, as in Korthikanti et al. 2022, section 4.  0 = not shown.
struct ActivationUnit {
  double elements = 0;          // sequence * microbatch * hidden
  double layers_per_chunk = 0;  // of this role; 0 if its chunks differ
};

// Bytes at the peak of each role by category and what is reserved, how far that of the fullest one
// is to be trusted, then the tensors that its passes hold.  `units`: one for each role, or empty.
std::string explain_memory(const Result& result, std::span<const ActivationUnit> units,
                           const TextStyle& style = {});

// Bubble of each role by cause.
std::string explain_bubble(const Result& result, const TextStyle& style = {});

// The longest chain of the step: who is busy from when to when, and with what.
std::string explain_critical_path(const Result& result, const TextStyle& style = {});

// A work of the step and how much device time it takes.
struct CostLine {
  WorkId work{};
  int64_t runs = 0;  // on all roles, one lane each
  Time total{};      // runs * price
};

// All works that run, longest total first.  REQUIRES: result.graph and result.prices.
std::vector<CostLine> cost_lines(const Result& result);

// Each work with its price, where the price comes from, and how often it runs.
std::string explain_costs(const Result& result, const TextStyle& style = {});
void write_costs(JsonWriter& json, const Result& result);

// --- --stages: what the passes of each stage take and hold

// One stage, for one microbatch.
struct StageLine {
  int64_t rank = 0;                                                 // pipeline rank
  Time forward{}, backward{}, backward_input{}, backward_weight{};  // B takes less than I and W
  int64_t after_forward = 0, after_input = 0;                       // bytes held, until W
  std::optional<Time> hop;  // to the next stage; on one rank 0
};

// A file for `stepcast schedule eval --stages`: a line for each stage, with further facts for
// people in comments.  `vpp`: chunks of each rank, which is more than its stages where two of them
// are one stage's (in two directions).
std::string explain_stages(const std::string& scenario, std::span<const StageLine> stages,
                           int64_t vpp);
void write_stages(JsonWriter& json, std::span<const StageLine> stages);

// --- What the host of a rank does during a step, by kind of launch

// One kind of launch.
struct HostLine {
  LaunchId launch{};
  int64_t runs = 0;  // of one rank, in a step
  Time total{};      // of its host for all of them
};

struct HostTime {
  std::string role;             // of the rank whose host has most to do
  Time total{};                 // of its launches, waits apart
  std::vector<HostLine> lines;  // that take time, largest first
};

// REQUIRES: r.graph and r.prices, here and below.
HostTime host_time_of(const Result& r);

// A line that says how much of the step it is, then one a kind: share of it, runs x time each.
std::string host_table(const Result& r, const TextStyle& style);
// "host": [{launch, runs, time_s, time_ps}]
void write_host(JsonWriter& json, const Result& r);

// --- --price: one price of the step in full, so that it can be made again by hand

// Prices without parts (communication, curves over bytes) have an empty list of them.
std::string explain_price(const Work& work, const Price& price, const PriceParts& parts,
                          const TextStyle& style = {});
// Members of an object.
void write_price(JsonWriter& json, const Work& work, const Price& price, const PriceParts& parts);

// --- --in-situ: what in-situ parameters add to the step

struct InSituLine {
  std::string term, scope, unit, prior_source;
  double value = 0, sd = 0, prior = 0, prior_sd = 0;
  Time added{};                   // the step less the step without this one
  int64_t runs = 0, sources = 0;  // published ones that have a say in it; 0: own runs, or none
};

struct InSituAnswer {
  std::vector<InSituLine> lines;  // none: no parameter holds
  Time step{}, without{};         // with all of them, without any
  int64_t own_runs = 0;           // that had a part in them, beside published runs
  std::string own_file;           // which says so
};

std::string explain_in_situ(const InSituAnswer& answer, const TextStyle& style = {});
void write_in_situ(JsonWriter& json, const InSituAnswer& answer);

// --- --links: which groups cross which links, and the fullest link of each kind

// `where`: how ranks lie on the cluster, one line.  Shares are of `step`.
CellTable crossings_table(const LinkLoads& loads, Time step);
// With the exposed time of each work on a rank, that of all which cross links of the kind stands
// beside it.
CellTable fullest_table(const LinkLoads& loads, Time step,
                        const std::map<WorkId, Time>& exposed = {});
std::string explain_links(const LinkLoads& loads, std::string_view where, Time step,
                          const TextStyle& style = {});
void write_links(JsonWriter& json, const LinkLoads& loads);

}  // namespace stepcast
