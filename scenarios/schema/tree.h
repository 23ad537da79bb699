// SPDX-License-Identifier: Apache-2.0
// What makes the tree of a scenario complete before its rows are read: presets are merged in,
// `--set` changes one place, shorthand is written out.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/document/value.h"
#include "scenarios/schema/keys.h"

namespace stepcast {

// Writes the presets that `cluster` and `cluster.node.gpu` name into the tree, below what is stated
// beside them.  Adds E125 for unknown names; false if there was one.
bool apply_cluster_presets(Value& root, Problems& problems);

// Writes a scalar that stands for a section out: `schedule: 1f1b` -> {kind: 1f1b}, `cluster:
// dgx-h100 x 2` -> {preset: dgx-h100, nodes: 2}.  Anything else stays as it is.
void expand_shorthand(Value& value, const Field& field);

// Sets `path` ("parallel.tp", "perturb.0.compute") in `root` to `value`: a mapping merges into what
// is there, null deletes a key.  Sections on the way are made or written out, items of lists must
// be there.  Adds E102 if `path` is no path of a scenario.
// `written` is where the path itself is written.
void set_path(Value& root, std::string_view path, const Mark& written, Value value,
              Problems& problems);

// Row of a value, by the keys that lead to it; nullptr if there is none.  Below an opaque row
// every path is that row's.
const Field* field_of_path(std::string_view dotted);

}  // namespace stepcast
