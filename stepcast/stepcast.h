// SPDX-License-Identifier: Apache-2.0
// The public interface of the library, all of it: load a scenario, set values, forecast its step,
// read the answer or write it as text, JSON or a trace.  tests/install/consumer is a program that
// does so.
//
// What is installed is this folder and what it includes; every other header is internal and may
// change at any time.  Nothing here prints, exits, or reads the clock or the environment.  What a
// user can get wrong is thrown as an InputError (errors.h); objects are values, and copies are
// cheap.
#pragma once

#include "stepcast/errors.h"
#include "stepcast/forecast.h"
#include "stepcast/presets.h"
#include "stepcast/scenario.h"
