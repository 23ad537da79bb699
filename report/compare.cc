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

// Name, step, difference, rate, bubble, peak, where, MFU.
constexpr size_t kColumns = 8;
constexpr size_t kName = 0, kWhere = 6;  // flush left
using Row = std::array<std::string, kColumns>;

// The rows in columns; a column that is empty in all of them is left out.
std::vector<std::string> aligned(std::span<const Row> rows) {
  std::array<int, kColumns> widths{};
  for (const Row& row : rows)
    for (size_t c = 0; c < kColumns; ++c) widths[c] = std::max(widths[c], display_width(row[c]));
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    std::string line;
    for (size_t c = 0; c < kColumns; ++c) {
      if (widths[c] == 0) continue;
      if (c > 0) line += "  ";
      line +=
          c == kName || c == kWhere ? pad_right(row[c], widths[c]) : pad_left(row[c], widths[c]);
    }
    lines.push_back(std::move(line));
  }
  return lines;
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
  const bool same_work = comparable_steps(results);
  const TimeScale scale = scale_of(results[baseline].step_time);
  std::vector<Row> rows{{"", "step " + std::string(scale.unit), "vs base",
                         same_work ? "" : "tokens/s/GPU", "bubble", "peak GiB", "on", "MFU"}};
  for (size_t i = 0; i < results.size(); ++i) {
    const Result& r = results[i];
    const int64_t quanta = (r.step_time.count() + scale.quantum_ps / 2) / scale.quantum_ps;
    rows.push_back({shortened(names[i]), format_quanta(quanta, scale),
                    i == baseline ? "-" : versus(r, results[baseline]),
                    same_work ? "" : rate_text(r.tokens_per_s_per_gpu),
                    percent(share_of(r.bubble, r.step_time)),
                    gib(peak_of(r)) + (r.fits ? "  " : " !"), role_name(r, r.memory_role),
                    percent(r.utilization.mfu_full_attention)});
  }
  std::vector<std::string> lines = aligned(rows);
  const std::vector<std::string> notes = compare_notes(results);
  std::string s = paint(lines[0], Tone::dim, style) + '\n';
  for (size_t i = 0; i < results.size(); ++i) {
    s += lines[i + 1];
    const Tone tone = results[i].fits ? Tone::good : Tone::bad;
    if (!notes[i].empty()) s += "  " + paint(notes[i], tone, style);
    s += '\n';
  }
  if (!same_work) s += "\nTokens or model differ: compare tokens/s/GPU and MFU, not step times.\n";
  return s;
}

}  // namespace stepcast
