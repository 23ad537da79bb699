// SPDX-License-Identifier: Apache-2.0
// What has a name already, with a line about each: `stepcast presets`.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/document/value.h"
#include "scenarios/presets.h"
#include "schedules/schedule.h"

namespace stepcast {

struct PresetEntry {
  std::string name;
  std::string summary;                     // one line
  std::string text;                        // the file; empty of a schedule
  const ScheduleFamily* family = nullptr;  // of a schedule
};

struct PresetList {
  std::string_view kind;
  std::vector<PresetEntry> entries;
};

// models, gpus, clusters, software, schedules.
std::span<const std::string_view> preset_kinds();
// Of one kind, or of all: "".  REQUIRES: one of these.
std::vector<PresetList> preset_lists(std::string_view kind);

// The entry of a preset, or of a schedule by any of its names.  Throws InputError E006.
const PresetEntry& find_preset(const std::string& name, std::span<const PresetList> lists);

// The line about a model, GPU, cluster or software by what its file says: the figures one chooses
// it by.
std::string preset_summary(PresetKind kind, const Value& root);

// {"models": [{name, summary}], ..., "schedules": [{name, summary, source, p2p, aliases,
// parameters}]}; p2p: how the program that runs it transfers, name_of(P2pStyle).
std::string presets_json(std::span<const PresetList> lists);
// One of these, with its text.
std::string preset_json(const PresetEntry& entry);

}  // namespace stepcast
