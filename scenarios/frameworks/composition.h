// SPDX-License-Identifier: Apache-2.0
// A configuration of Hydra that is put together from files: its list `defaults`.
//
// What an entry means: "The Defaults List" of the documentation of
// https://github.com/facebookresearch/hydra.  "- training: gpt3/5b" is
// training/gpt3/5b.yaml below the key `training`; "- .@model.encoder: base" is base.yaml beside
// the file, below model.encoder; what stands before "_self_", or in a list without it, gives way to
// the file's own keys.
#pragma once

#include <string>
#include <vector>

#include "scenarios/document/value.h"
#include "scenarios/frameworks/importers.h"

namespace stepcast {

// An entry whose file cannot be found, as it is written, and where its keys would be:
// "training.model".
struct MissingFile {
  std::string package, written;
};

// Puts the files that `defaults` names into `root`, their own `defaults` included.  A word
// "training=llama/llama3_8b" of in.given chooses another file of a group.  Returns what is missing
// and neither optional, null nor Hydra's own.  Adds the problems of files that are no YAML.
// Whatever is in the files, the work is bounded: at most 64 files are read, 8 deep.
std::vector<MissingFile> compose_defaults(Value& root, const ImportSources& in);

}  // namespace stepcast
