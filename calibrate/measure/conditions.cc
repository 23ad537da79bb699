// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace stepcast::measure {
namespace {

// Bits of nvmlClocksEventReasons (NVML API reference) that mean lower clocks than the GPU could
// have.
struct Reason {
  uint64_t bit;
  std::string_view name;
};
constexpr std::array kReasons{
    Reason{0x4, "power cap"},          Reason{0x8, "hardware slow-down"}, Reason{0x20, "heat"},
    Reason{0x40, "heat, by hardware"}, Reason{0x80, "power brake"},
};

uint64_t slowing(uint64_t reasons) {
  uint64_t all = 0;
  for (const Reason& r : kReasons) all |= r.bit;
  return reasons & all;
}

void append(std::string& text, const std::string& part) {
  if (!text.empty()) text += ", ";
  text += part;
}

}  // namespace

std::string slowdowns(uint64_t reasons) {
  std::string text;
  for (const Reason& r : kReasons) {
    if ((reasons & r.bit) != 0) append(text, std::string(r.name));
  }
  return text;
}

void ConditionLog::Range::add(double value) {
  if (value <= 0) return;
  least = least == 0 ? value : std::min(least, value);
  most = std::max(most, value);
}

void ConditionLog::add(const DeviceState& before, const DeviceState& after) {
  for (const DeviceState* s : {&before, &after}) {
    sm_mhz_.add(s->sm_mhz);
    memory_mhz_.add(s->memory_mhz);
    temperature_c_.add(s->temperature_c);
    power_w_.add(s->power_w);
    power_limit_w_ = std::max(power_limit_w_, s->power_limit_w);
  }
  // What was in force at its end: before it the GPU was idle.
  const uint64_t reasons = slowing(after.slowed_by);
  slowed_by_ |= reasons;
  ++points_;
  if (reasons != 0) ++slowed_points_;
}

std::string ConditionLog::text() const {
  std::string text;
  const auto add = [&](std::string_view name, const Range& r, std::string_view unit) {
    if (r.most == 0) return;
    const std::string what = name.empty() ? "" : std::string(name) + ' ';
    append(text, r.least == r.most
                     ? fmt::format("{}{:.0f} {}", what, r.most, unit)
                     : fmt::format("{}{:.0f} to {:.0f} {}", what, r.least, r.most, unit));
  };
  add("SM", sm_mhz_, "MHz");
  add("memory", memory_mhz_, "MHz");
  add("", temperature_c_, "C");
  add("", power_w_, "W");
  if (power_limit_w_ > 0) text += fmt::format(" of {:.0f} W", power_limit_w_);
  if (slowed_points_ > 0) {
    append(text, fmt::format("clocks were lowered ({}) in {} of {} points", slowdowns(slowed_by_),
                             slowed_points_, points_));
  }
  return text;
}

}  // namespace stepcast::measure
