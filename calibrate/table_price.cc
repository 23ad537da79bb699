// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table_price.h"

namespace stepcast {
namespace {

std::string shape_text(int64_t m, const Work& w) {
  return std::to_string(m) + "x" + std::to_string(w.n) + "x" + std::to_string(w.k);
}

std::string rows_text(const TableBasis& b, const Work& w) {
  const bool attention =
      w.kind == WorkKind::attention_forward || w.kind == WorkKind::attention_backward;
  switch (b.from) {
    case TableBasis::From::row: return attention ? "exact row" : "row " + shape_text(w.m, w);
    case TableBasis::From::rows_beside:
      return "rows " + shape_text(b.low, w) + " and m = " + std::to_string(b.high);
    case TableBasis::From::nearest_rows:
      return std::to_string(b.used) + " nearest " + (attention ? "attention rows" : "rows");
    case TableBasis::From::kernel: return "rows of " + std::string(name_of(b.kernel));
    case TableBasis::From::copies: return "copies " + std::string(name_of(b.copy));
  }
  return {};
}

}  // namespace

std::string basis_text(const TableBasis& b, const Work& work) {
  Work shape = work;
  if (b.groups > 0) shape.m *= b.groups;
  std::string text = rows_text(b, shape);
  if (b.other_layout) text += " of layout tn, by the ratio of layouts";
  if (b.attention != AttentionKernel::table) text += " of " + std::string(name_of(b.attention));
  if (b.lacking != AttentionKernel::table)
    text += ", as there are none of " + std::string(name_of(b.lacking));
  if (b.groups > 0) text += " of one matrix, in " + std::to_string(b.groups) + " groups";
  return text;
}

}  // namespace stepcast
