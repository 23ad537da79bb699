// SPDX-License-Identifier: Apache-2.0
// `stepcast explain --price`: one price of the step in full, so that it can be made again by hand.
#pragma once

#include <string>

#include "report/format.h"
#include "report/json_writer.h"
#include "sim/graph/price.h"
#include "sim/graph/work.h"

namespace stepcast {

// Parts of what has none (communication, curves over bytes) are empty.
std::string explain_price(const Work& work, const Price& price, const PriceParts& parts,
                          const TextStyle& style = {});
// Members of an object.
void write_price(JsonWriter& json, const Work& work, const Price& price, const PriceParts& parts);

}  // namespace stepcast
