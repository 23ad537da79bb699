// SPDX-License-Identifier: Apache-2.0
// The timeline as a picture that stands still, for paper and for readers without JavaScript.
#pragma once

#include <string>

#include "sim/results/result.h"

namespace stepcast {

// SVG inside HTML, in classes of the page's style sheet: a line for each pipeline rank, with what
// its compute stream runs by kind of action; what is shorter than half a pixel is drawn together.
// At most so many ranks, spread over all of them.
// The axis ends at `whole`, or with the step.
std::string gantt_svg(const Result& result, size_t most_ranks = 32, Time whole = {});

}  // namespace stepcast
