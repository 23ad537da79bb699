// SPDX-License-Identifier: Apache-2.0
// Public.  What has a name already: models, GPUs, clusters and software, each a YAML text.
#pragma once

#include "scenarios/presets.h"
