// SPDX-License-Identifier: Apache-2.0
// resolve_transfers: schedule.p2p, and overlap.pp_p2p, which says the same in one bit.

#include "scenarios/resolve_schedule.h"
#include "schedules/families/families.h"
#include "schedules/transfers/transfers.h"

namespace stepcast {
namespace {

bool waits(P2pStyle style) {
  return style == P2pStyle::megatron || style == P2pStyle::dualpipe || style == P2pStyle::deepspeed;
}

std::string reason_of(const Schedule& schedule, P2pStyle style) {
  if (schedule.name == "1f1b")
    return "default: Megatron's 1F1B waits for every exchange with its neighbours";
  switch (style) {
    case P2pStyle::megatron:
      return "default: Megatron waits for every exchange with its neighbours";
    case P2pStyle::megatron_overlap:
    case P2pStyle::megatron_overlap_flush:
      return "default: on without Megatron's --no-overlap-p2p-communication";
    case P2pStyle::dualpipe: return "default: DualPipe exchanges before each action";
    case P2pStyle::deepspeed: return "default: DeepSpeed sends and receives one after the other";
    case P2pStyle::async: break;
  }
  return "default: sends leave at once and nobody waits for them";
}

// What the framework of the schedule does; Megatron-LM's switches are parameters of the family.
P2pStyle default_style(const FieldValues& v, const Schedule& schedule) {
  const P2pStyle style = default_p2p_style(schedule.name);
  if (style != P2pStyle::megatron_overlap || v.value("schedule.params") == nullptr) return style;
  ScheduleParams params;
  for (const std::string& pair : v.texts("schedule.params")) {
    const size_t equals = pair.find('=');
    params.more[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  ParamReader read(params);
  if (!read.flag(kMegatronOverlap).value_or(true)) return P2pStyle::megatron;
  const bool flush = read.flag(kMegatronOverlapFlush).value_or(false);
  return flush ? P2pStyle::megatron_overlap_flush : style;
}

// Whether the way of a software profile applies: schedules that bring a way of their own keep it,
// and so do those that it cannot run.
bool takes_software(const FieldValues& v, const Schedule& schedule) {
  if (!v.stated("schedule.p2p") || !v.has("schedule.p2p")) return false;
  const P2pStyle own = default_p2p_style(schedule.name);
  const P2pStyle style = p2p_style_named(v.text("schedule.p2p")).value_or(own);
  const bool like_megatron = own == P2pStyle::megatron || own == P2pStyle::megatron_overlap;
  return like_megatron && !check_transfers(schedule, style);
}

}  // namespace

P2pStyle resolve_transfers(const PlanInputs& in, const Schedule& schedule) {
  FieldValues& v = in.values;
  const bool flagged = v.value("overlap.pp_p2p") != nullptr && v.has("overlap.pp_p2p");
  const bool stated =
      v.value("schedule.p2p") != nullptr || (!flagged && takes_software(v, schedule));
  P2pStyle style = default_style(v, schedule);
  std::string origin = style == default_p2p_style(schedule.name) ? reason_of(schedule, style)
                                                                 : "derived: schedule.params";
  const char* path = "schedule.p2p";
  if (stated && v.has("schedule.p2p")) {
    style = p2p_style_named(v.text("schedule.p2p")).value_or(style);
    origin = "derived: schedule.p2p";
    if (flagged && v.flag("overlap.pp_p2p") == waits(style))
      v.refuse("E127", "overlap.pp_p2p",
               "overlap.pp_p2p contradicts schedule.p2p = " + v.text("schedule.p2p"),
               "leave one of them out");
  } else if (flagged) {
    path = "overlap.pp_p2p";
    if (!v.flag("overlap.pp_p2p") && !waits(style)) style = P2pStyle::megatron;
    if (v.flag("overlap.pp_p2p") && waits(style)) style = P2pStyle::async;
  }
  if (!stated)
    v.derive("schedule.p2p", std::string(name_of(style)), std::string(name_of(style)),
             flagged ? "derived: overlap.pp_p2p" : origin);
  if (v.value("overlap.pp_p2p") == nullptr)
    v.derive("overlap.pp_p2p", !waits(style), waits(style) ? "false" : "true", origin);
  if (style == P2pStyle::async) return style;
  try {
    with_transfers(schedule, style);
  } catch (const InputError& e) {
    v.refuse("E127", path, e.what());
  }
  return style;
}

}  // namespace stepcast
