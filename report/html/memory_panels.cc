// SPDX-License-Identifier: Apache-2.0
// Memory: of each rank of one result, of the fullest rank of several.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "report/html/markup.h"
#include "report/html/panels.h"
#include "report/text/roles.h"
#include "report/text/run.h"

namespace stepcast {
namespace {

std::string_view category_title(MemoryCategory c) {
  switch (c) {
    case MemoryCategory::parameters: return "parameters";
    case MemoryCategory::gradients: return "gradients";
    case MemoryCategory::optimizer_state: return "optimizer";
    case MemoryCategory::activations: return "activations";
    case MemoryCategory::recompute_workspace: return "recompute";
    case MemoryCategory::workspace: return "workspace";
    case MemoryCategory::communication: return "communication";
    case MemoryCategory::logits: return "logits";
  }
  return "";
}

std::string category_style(int c) {
  return "m-" + std::string(name_of(static_cast<MemoryCategory>(c)));
}

// Categories that hold something at the peak of any of the ranks.
std::vector<int> used_categories(std::span<const RankMemory> ranks) {
  std::vector<int> used;
  for (int c = 0; c < kMemoryCategories; ++c)
    if (std::ranges::any_of(ranks, [&](const RankMemory& m) {
          return m.memory.at_peak[static_cast<size_t>(c)].value > 0;
        }))
      used.push_back(c);
  return used;
}

}  // namespace

std::string memory_legend(std::span<const RankMemory> ranks) {
  std::string legend = "<ul class=\"legend\">";
  for (const int c : used_categories(ranks))
    legend += "<li>" + swatch(category_style(c)) +
              std::string(category_title(static_cast<MemoryCategory>(c))) + "</li>";
  return legend + "<li>" + swatch("m-gaps") + "reserved, not in use</li></ul>\n";
}

std::string memory_bar(const RankMemory& m, double whole) {
  std::vector<BarPart> parts;
  for (int c = 0; c < kMemoryCategories; ++c) {
    const Bytes bytes = m.memory.at_peak[static_cast<size_t>(c)];
    parts.push_back({static_cast<double>(bytes.value) / whole, category_style(c),
                     fmt::format("{}: {}", category_title(static_cast<MemoryCategory>(c)),
                                 format_bytes(bytes))});
  }
  parts.push_back({static_cast<double>((m.reserved - m.memory.peak).value) / whole, "m-gaps",
                   "reserved, not in use"});
  return html_bar(parts);
}

std::string memory_panel(const Result& r) {
  if (r.memory.empty()) return {};
  const std::vector<int> used = used_categories(r.memory);
  std::vector<HtmlColumn> columns{
      {"rank", false}, {"at the peak", false}, {"reserved, GiB", true}, {"allocated, GiB", true}};
  for (const int c : used)
    columns.push_back({std::string(category_title(static_cast<MemoryCategory>(c))), true});
  columns.push_back({"microbatches", true});
  HtmlTable table("Memory of each rank at its peak", columns);
  const double whole = static_cast<double>(
      std::max(r.memory_usable.value, std::max<int64_t>(1, r.memory_reserved.value)));
  for (uint32_t role = 0; role < r.memory.size(); ++role) {
    const RankMemory& m = r.memory[role];
    table.row(role == r.reserved_role ? "mark" : "")
        .text(role_name(r, role))
        .html(memory_bar(m, whole))
        .text(gib(m.reserved))
        .text(gib(m.memory.peak));
    for (const int c : used) table.text(gib(m.memory.at_peak[static_cast<size_t>(c)]));
    table.text(grouped(m.memory.peak_in_flight));
  }
  std::string s =
      memory_legend(r.memory) + "<figure id=\"memory-chart\"></figure>\n" + table.finish();
  s += note(fmt::format("Bars are as wide as the {} GiB that a GPU has for the step.",
                        gib(r.memory_usable)));
  if (r.reserved_role < r.memory.size()) {
    const RankMemory& fullest = r.memory[r.reserved_role];
    const std::array<HtmlColumn, 2> terms{{{"tensor", false}, {"GiB", true}}};
    HtmlTable list("Largest tensors at the peak of " + role_name(r, r.reserved_role), terms);
    size_t shown = 0;
    for (const auto& [name, bytes] : fullest.activation_terms) {
      if (shown++ == 25) break;
      list.row().text(name).text(gib(bytes));
    }
    if (shown > 0)
      s += html_details(fmt::format("What fills {} at its peak, {}", role_name(r, r.reserved_role),
                                    fullest.peak_at),
                        list.finish());
  }
  return html_section("memory", "Memory", s);
}

std::string memories_panel(std::span<const PageCase> cases) {
  std::vector<RankMemory> fullest;
  std::vector<const PageCase*> known;
  double whole = 1;
  for (const PageCase& c : cases) {
    const Result& r = *c.result;
    if (r.reserved_role >= r.memory.size()) continue;
    RankMemory& own = fullest.emplace_back();
    own.memory.at_peak = r.memory[r.reserved_role].memory.at_peak;
    own.memory.peak = r.memory[r.reserved_role].memory.peak;
    own.reserved = r.memory[r.reserved_role].reserved;
    known.push_back(&c);
    whole = std::max({whole, static_cast<double>(r.memory_usable.value),
                      static_cast<double>(own.reserved.value)});
  }
  if (fullest.empty()) return {};
  const std::array<HtmlColumn, 6> columns{{{"case", false},
                                           {"at the peak", false},
                                           {"reserved, GiB", true},
                                           {"allocated, GiB", true},
                                           {"usable, GiB", true},
                                           {"fullest rank", false}}};
  HtmlTable table("Memory of the fullest rank of each case at its peak", columns);
  for (size_t i = 0; i < fullest.size(); ++i) {
    const Result& r = *known[i]->result;
    table.row()
        .text(known[i]->name)
        .html(memory_bar(fullest[i], whole))
        .text(gib(r.memory_reserved))
        .text(gib(fullest[i].memory.peak))
        .text(gib(r.memory_usable))
        .text(role_name(r, r.reserved_role));
  }
  return html_section("memory", "Memory", memory_legend(fullest) + table.finish());
}

}  // namespace stepcast
