// SPDX-License-Identifier: Apache-2.0
#include "report/compare.h"

#include <algorithm>
#include <array>
#include <vector>

#include "report/account_lines.h"
#include "sim/check.h"

namespace stepcast {
namespace {

constexpr int kLongestName = 24;

std::string versus(const Result& r, const Result& base) {
  const double change = share_of(r.step_time - base.step_time, base.step_time) * 100;
  return (change > 0 ? "+" : "") + fixed(change, 1) + " %";
}

std::string shortened(const std::string& name) {
  const std::string safe = escape_text(name);
  if (display_width(safe) <= kLongestName) return safe;
  std::string kept;
  int columns = 0;
  for (const char c : safe) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80 && ++columns > kLongestName - 3) break;
    kept += c;
  }
  return kept + "...";
}

Bytes peak_of(const Result& r) {
  return r.memory_role < r.memory.size() ? r.memory[r.memory_role].memory.peak : Bytes{};
}

// "fastest" of results that all do the same work; else the one with the highest rate.
bool is_faster(const Result& a, const Result& b, bool same_work) {
  return same_work ? a.step_time < b.step_time : a.tokens_per_s_per_gpu > b.tokens_per_s_per_gpu;
}

}  // namespace

bool comparable_steps(std::span<const Result> results) {
  return std::all_of(results.begin(), results.end(), [&](const Result& r) {
    return r.tokens_per_step == results.front().tokens_per_step &&
           r.model_flops_per_step == results.front().model_flops_per_step;
  });
}

std::vector<std::string> compare_notes(std::span<const Result> results) {
  std::vector<std::string> notes(results.size());
  const Result* fastest = nullptr;
  const Result* smallest = nullptr;
  bool all_fit = true;
  const bool same_work = comparable_steps(results);
  for (const Result& r : results) {
    all_fit = all_fit && r.fits;
    if (!r.fits) continue;
    if (fastest == nullptr || is_faster(r, *fastest, same_work)) fastest = &r;
    if (smallest == nullptr || peak_of(r) < peak_of(*smallest)) smallest = &r;
  }
  if (results.size() < 2) fastest = smallest = nullptr;
  for (size_t i = 0; i < results.size(); ++i) {
    const Result* r = &results[i];
    if (!r->fits)
      notes[i] = "does not fit by " + gib(r->memory_reserved - r->memory_usable) + " GiB";
    if (r == fastest)
      notes[i] =
          (same_work ? "fastest" : "highest rate") + std::string(all_fit ? "" : " that fits");
    if (r == smallest) notes[i] += notes[i].empty() ? "least memory" : ", least memory";
  }
  return notes;
}

std::string compare_table(std::span<const Result> results, std::span<const std::string> names,
                          size_t baseline, const TextStyle& style) {
  STEPCAST_CHECK(results.size() == names.size() && baseline < results.size(),
                 "a name for each result, and the baseline among them");
  using Row = std::array<std::string, 7>;
  std::vector<std::string> first{""};
  std::vector<Row> rows;
  const bool same_work = comparable_steps(results);
  const TimeScale scale = scale_of(results[baseline].step_time);
  rows.push_back({"step " + std::string(scale.unit), "vs base", same_work ? "" : "tokens/s/GPU",
                  "bubble", "peak GiB", "on", "MFU"});
  for (size_t i = 0; i < results.size(); ++i) {
    const Result& r = results[i];
    first.push_back(shortened(names[i]));
    const int64_t quanta = (r.step_time.count() + scale.quantum_ps / 2) / scale.quantum_ps;
    rows.push_back(
        {format_quanta(quanta, scale), i == baseline ? "-" : versus(r, results[baseline]),
         percent(share_of(r.bubble, r.step_time)), gib(peak_of(r)) + (r.fits ? "  " : " !"),
         role_name(r, r.memory_role), percent(r.utilization.mfu_full_attention)});
  }
  int name_width = 0;
  for (const std::string& f : first) name_width = std::max(name_width, display_width(f));
  std::array<int, 7> widths{};
  for (const Row& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], display_width(row[c]));
  const std::vector<std::string> notes = compare_notes(results);
  std::string s;
  for (size_t i = 0; i < rows.size(); ++i) {
    std::string line = pad_right(first[i], name_width);
    for (size_t c = 0; c < rows[i].size(); ++c) {
      if (widths[c] == 0) continue;
      const bool left = c == 5;  // the stage is a name
      line += "  " + (left ? pad_right(rows[i][c], widths[c]) : pad_left(rows[i][c], widths[c]));
    }
    if (i > 0 && !notes[i - 1].empty()) {
      const Tone tone = results[i - 1].fits ? Tone::good : Tone::bad;
      line += "  " + paint(notes[i - 1], tone, style);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    s += i == 0 ? paint(line, Tone::dim, style) + '\n' : line + '\n';
  }
  if (!same_work)
    s += "\nThe cases differ in tokens or model: compare tokens/s/GPU and MFU, not step times.\n";
  return s;
}

}  // namespace stepcast
