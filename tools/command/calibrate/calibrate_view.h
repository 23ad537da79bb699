// SPDX-License-Identifier: Apache-2.0
// Cost tables in the form that reports show.
#pragma once

#include <string>
#include <vector>

#include "calibrate/table/table_text.h"
#include "report/svg/table.h"
#include "report/text/table.h"

namespace stepcast::cli {

// `hash`: of the table's text; may be empty.
TableView view_of(const TableText& table, const std::string& title, const std::string& hash);

// Matrix products and attention as rates, kernels as times, collectives as bus bandwidths, copies
// as bandwidths, against the sizes; curves where the table has a fit.
std::vector<FitPlot> fit_plots(const TableText& table);

}  // namespace stepcast::cli
