// SPDX-License-Identifier: Apache-2.0
// A configuration of Hydra that is put together from files: its list `defaults`.
//
// What an entry means: "The Defaults List" of the documentation of
// https://github.com/facebookresearch/hydra.  "- training: gpt3/5b" is
// training/gpt3/5b.yaml below the key `training`; "- .@model.encoder: base" is base.yaml beside
// the file, below model.encoder; "- override training: b" chooses another file of a group; what
// stands before "_self_", or in a list without it, gives way to the file's own keys.
#pragma once

#include <string>
#include <vector>

#include "scenarios/document/value.h"
#include "scenarios/frameworks/importers.h"

namespace stepcast {

// An entry that gives nothing: as it is written, where its keys would be ("training.model"), and
// why.
struct MissingFile {
  std::string package, written, why;
};

// Puts the files that `defaults` names into `root`, their own `defaults` included.  A word
// "training=llama/llama3_8b" of in.given chooses another file of a group.  Returns the entries that
// give nothing and are neither optional, null nor Hydra's own.
//
// Adds the problems of files that are no YAML, E105 where the keys of a file would be nested too
// deeply, E111 for files outside the folder of the first one.  Whatever is in the files, the work
// is bounded: at most 64 are read, 8 deep, and of 4 MiB together (E106).
std::vector<MissingFile> compose_defaults(Value& root, const ImportSources& in);

}  // namespace stepcast
