// SPDX-License-Identifier: Apache-2.0
// Public.  The presets: models, GPUs, clusters and software that have a name, each a YAML text.
#pragma once

#include "scenarios/presets.h"
