// SPDX-License-Identifier: Apache-2.0
// Interpolations of Hydra and OmegaConf in a YAML file: "${.hidden_size}", "${multiply:4, ${.x}}".
//
// What they mean: https://omegaconf.readthedocs.io, "Variable interpolation"; the arithmetic is
// what NeMo registers (nemo/core/config/hydra_runner.py, nemo_launcher/main.py).
#pragma once

#include <span>
#include <string>

#include "scenarios/document/value.h"

namespace stepcast {

// Replaces every interpolation in the scalars of `root` whose value is known: a path from the root
// ("model.x", or "training.model.x" in a file that is put below "training"), a relative path (".x"
// is a neighbour, "..x" one above), arithmetic on whole numbers, ${oc.env:NAME,default} with
// `given` ("NAME=VALUE"), ${oc.select:path,default}.  What is not known stays as it is written.
// Whatever is in the file, the work is bounded.
void resolve_interpolations(Value& root, std::span<const std::string> given);

}  // namespace stepcast
