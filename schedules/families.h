// SPDX-License-Identifier: Apache-2.0
// The schedule families.  A family is one file that defines one of these functions; list it in
// families.cc and it is known everywhere.
#pragma once

#include "schedules/schedule.h"

namespace stepcast {

ScheduleFamily gpipe();
ScheduleFamily one_f_one_b();
ScheduleFamily eager_1f1b();
ScheduleFamily interleaved();
ScheduleFamily interleaved_ep_overlap();
ScheduleFamily interleaved_flex();
ScheduleFamily seq1f1b();
ScheduleFamily group_interleaved();
ScheduleFamily looped_bfs();
ScheduleFamily breadth_first();
ScheduleFamily zb_h1();
ScheduleFamily zb_h1_quickstart();
ScheduleFamily zb_h2();
ScheduleFamily interleaved_zero_bubble();
ScheduleFamily zb_1p_auto();
ScheduleFamily zb_2p_auto();
ScheduleFamily zb_v();
ScheduleFamily zb_v_auto();
ScheduleFamily v_half();
ScheduleFamily v_min();
ScheduleFamily one_f_one_b_v();
ScheduleFamily v_controllable();
ScheduleFamily dualpipe();
ScheduleFamily dualpipev();
ScheduleFamily chimera();
ScheduleFamily hanayo();
ScheduleFamily vocabulary_1f1b();

}  // namespace stepcast
