// SPDX-License-Identifier: Apache-2.0
// stepcast schedule show|check|export|eval: pipeline schedules without a scenario.
#include "tools/schedule.h"

#include <algorithm>
#include <array>

#include "report/diagnostics.h"
#include "report/svg/schedule.h"
#include "schedules/formats/action_text.h"
#include "schedules/formats/compute_comms.h"
#include "schedules/formats/schedule_csv.h"
#include "sim/check.h"
#include "tools/options.h"
#include "tools/output.h"
#include "tools/schedule_timing.h"

namespace stepcast::cli {
namespace {

ScheduleCosts costs_of(const Arguments& args) {
  return parse_costs(args.schedule.costs, args.schedule.straggler, read_stages(args.schedule));
}

std::string rows_json(const ChosenSchedule& chosen) {
  return json_document([&](JsonWriter& json) {
    write_schedule(json, chosen);
    std::vector<std::string> rows;
    for (const std::vector<Action>& rank : chosen.schedule.ranks)
      rows.push_back(to_text(rank, chosen.schedule.seq_splits, chosen.schedule.names_pieces));
    json.values("ranks", rows);
  });
}

std::string verdict_json(const ChosenSchedule& chosen) {
  return json_document([&](JsonWriter& json) {
    json.member("ok", true);
    write_schedule(json, chosen);
    json.values("remarks", chosen.remarks);
  });
}

std::string eval_json(const ChosenSchedule& chosen, const ScheduleTiming& timing,
                      const ScheduleCosts& costs, P2pStyle style) {
  return json_document([&](JsonWriter& json) {
    write_schedule(json, chosen);
    json.member("p2p", name_of(style));
    write_times(json, timing, costs);
    json.objects("ranks", timing.ranks, [&](const RankTiming& rank) {
      write_time(json, "busy", rank.busy, costs);
      json.member("peak_in_flight", rank.peak_in_flight);
      json.member("peak_in_flight_release_input", rank.peak_until_input);
      write_time(json, "start", rank.start, costs);
      write_time(json, "end", rank.end, costs);
    });
  });
}

std::string eval_text(const ChosenSchedule& chosen, const ScheduleTiming& timing,
                      const ScheduleCosts& costs, const Terminal& terminal) {
  const auto time = [&](Time t) { return exact_decimal(t.count(), costs.per_unit); };
  std::vector<std::vector<std::string>> rows = {
      {"", "busy", "start", "end", "in flight", "... released at I"}};
  for (size_t r = 0; r < timing.ranks.size(); ++r) {
    const RankTiming& rank = timing.ranks[r];
    rows.push_back({"rank " + std::to_string(r), time(rank.busy), time(rank.start), time(rank.end),
                    std::to_string(rank.peak_in_flight), std::to_string(rank.peak_until_input)});
  }
  return wrap(escape_text(chosen.title) + ": " + sizes_of(chosen.schedule), "",
              terminal.out.width) +
         flow(facts_of(timing, costs), terminal.out.width) + '\n' +
         titled_table(rows, "<>>>>>", terminal.out);
}

std::string lanes_json(const ScheduleDrawing& drawing, const ChosenSchedule& chosen,
                       const ScheduleTiming& timing, const ScheduleCosts& costs) {
  return json_document([&](JsonWriter& json) {
    write_schedule(json, chosen);
    write_times(json, timing, costs);
    json.key("ranks");
    json.begin_array();
    for (const auto& lane : drawing.lanes) {
      json.begin_array();
      for (const DrawnAction& a : lane) {
        json.begin_object();
        json.member("action", to_string(a.action, drawing.seq_splits));
        write_time(json, "begin", a.begin, costs);
        write_time(json, "end", a.end, costs);
        json.end_object();
      }
      json.end_array();
    }
    json.end_array();
  });
}

int columns_of(const ScheduleArguments& a, const Terminal& terminal) {
  if (a.columns.empty()) return terminal.columns;
  const int64_t columns = parse_count("--width", a.columns, 40);
  return static_cast<int>(std::min<int64_t>(columns, 100'000));
}

}  // namespace

int schedule_export_command(const Arguments& args, const Terminal& terminal) {
  const bool transfers =
      parse_word("--format", args.schedule.format, {"compute", "compute-comms"}) == 1;
  const ChosenSchedule chosen = choose_schedule(args, costs_of(args));
  const Schedule& schedule = chosen.schedule;
  deliver(args.json   ? rows_json(chosen)
          : transfers ? write_compute_comms_csv(schedule)
                      : write_schedule_csv(schedule),
          args.output, args.force);
  say_remarks(chosen, args, terminal);
  return 0;
}

int schedule_check_command(const Arguments& args, const Terminal& terminal) {
  ChosenSchedule chosen = choose_schedule(args, costs_of(args));
  remark_stalls(chosen);
  if (args.json) {
    write_stdout(verdict_json(chosen));
    return 0;
  }
  write_stdout(wrap(escape_text(chosen.title) + ": " + sizes_of(chosen.schedule),
                    paint("ok", Tone::good, terminal.out) + ": ", terminal.out.width));
  say_remarks(chosen, args, terminal);
  return 0;
}

int schedule_eval_command(const Arguments& args, const Terminal& terminal) {
  const ScheduleCosts costs = costs_of(args);
  const P2pStyle style = parse_p2p(args.schedule.p2p);
  const ChosenSchedule chosen = choose_schedule(args, costs);
  const ScheduleTiming timing = time_schedule(chosen.schedule, costs, style);
  write_stdout(args.json ? eval_json(chosen, timing, costs, style)
                         : eval_text(chosen, timing, costs, terminal));
  say_remarks(chosen, args, terminal);
  return 0;
}

int schedule_show_command(const Arguments& args, const Terminal& terminal) {
  const ScheduleArguments& a = args.schedule;
  const ScheduleCosts costs = costs_of(args);
  const P2pStyle style = parse_p2p(a.p2p);
  const int columns = columns_of(a, terminal);
  const ChosenSchedule chosen = choose_schedule(args, costs);
  const ScheduleTiming timing = time_schedule(chosen.schedule, costs, style);
  const ScheduleDrawing drawing = drawing_of(chosen, timing, costs);
  // -o picture.svg is a picture too.
  const bool named_svg = args.svg.empty() && args.output.ends_with(".svg");
  const std::string& svg = named_svg ? args.output : args.svg;
  if (!svg.empty()) deliver(schedule_svg(drawing), svg, args.force);
  if (args.json)
    deliver(lanes_json(drawing, chosen, timing, costs), named_svg ? "" : args.output, args.force);
  else if (svg.empty())
    deliver(draw_schedule(drawing, {terminal.out.color, columns}), args.output, args.force);
  else if (svg != "-" && !args.quiet)
    write_stdout(escape_text(svg) + ": " + escape_text(drawing.title) + '\n');
  say_remarks(chosen, args, terminal);
  return 0;
}

}  // namespace stepcast::cli
