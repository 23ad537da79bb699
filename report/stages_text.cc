// SPDX-License-Identifier: Apache-2.0
#include "report/stages_text.h"

#include <algorithm>
#include <vector>

namespace stepcast {
namespace {

std::string ms(Time t) {
  return fixed(to_seconds(t) * 1e3, 3);
}

}  // namespace

std::string explain_stages(const std::string& scenario, std::span<const StageLine> stages) {
  std::vector<std::vector<std::string>> rows{
      {"F", "I", "W", "after F", "after I", "B", "# stage", "pp rank", "hop"}};
  Time longest{};
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageLine& l = stages[s];
    rows.push_back({ms(l.forward) + ',', ms(l.backward_input) + ',', ms(l.backward_weight) + ',',
                    std::to_string(l.after_forward) + ',', std::to_string(l.after_input) + ',',
                    ms(l.backward), "# " + std::to_string(s), std::to_string(l.rank),
                    l.hop ? ms(*l.hop) : "-"});
    longest = std::max(longest, l.hop.value_or(Time{}));
  }
  std::string text = "# " + escape_text(scenario) +
                     ", one microbatch: passes and transfers in ms, bytes held after F and I.\n"
                     "# For stepcast schedule eval FAMILY --stages FILE --costs 0,0,0," +
                     ms(longest) + "\n";
  std::string begin = "# ";
  for (const std::string& line : align_columns(rows, ">>>>>>>>>")) {
    text += begin + line + '\n';
    begin = "  ";
  }
  return text;
}

void write_stages(JsonWriter& json, std::span<const StageLine> stages) {
  int64_t stage = 0;
  json.objects("stages", stages, [&](const StageLine& l) {
    json.member("stage", stage++);
    json.member("pp_rank", l.rank);
    json.member_time("forward", l.forward);
    json.member_time("backward", l.backward);
    json.member_time("backward_input", l.backward_input);
    json.member_time("backward_weight", l.backward_weight);
    json.member("bytes_after_forward", l.after_forward);
    json.member("bytes_after_input", l.after_input);
    json.member_time("hop", l.hop);
  });
}

}  // namespace stepcast
