// SPDX-License-Identifier: Apache-2.0
#include "report/price_text.h"

#include <array>
#include <charconv>
#include <vector>

namespace stepcast {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// With the digits that it takes to go on from there.
std::string micros(double us) {
  return fixed(us, us < 100 ? 4 : 2) + " us";
}

std::string constant(double value) {
  std::array<char, 400> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 6);
  return {text.data(), end.ptr};
}

std::string amount(double value) {
  return value < 1e18 ? grouped(static_cast<int64_t>(value)) : constant(value);
}

// "flops / 712.1 TFLOP/s (0.72 of the data sheet's)"
std::string term(std::string_view what, double rate, std::string_view unit, double share) {
  std::string s = std::string(what) + " / " + constant(rate) + ' ' + std::string(unit);
  if (share > 0) s += ", " + constant(share) + " of the data sheet's";
  return s;
}

std::string form_table(const PriceForm& f, const TextStyle& style) {
  const double compute = f.tflops > 0 ? f.flops / (f.tflops * 1e6) : 0;
  const double memory = f.gbs > 0 ? f.bytes / (f.gbs * 1e3) : 0;
  Rows rows = {{escape_text(f.source), ""}, {"t0", micros(f.t0_us)}};
  if (compute > 0)
    rows.push_back(
        {"c = " + amount(f.flops) + ' ' + term("flops", f.tflops, "TFLOP/s", f.tflops_share),
         micros(compute)});
  if (memory > 0)
    rows.push_back({"m = " + amount(f.bytes) + ' ' + term("bytes", f.gbs, "GB/s", f.gbs_share),
                    micros(memory)});
  rows.push_back({compute > 0 && memory > 0 ? "t0 + sqrt(c^2 + m^2)" : "their sum", micros(f.us)});
  return '\n' + titled_table(rows, "<>", style);
}

std::string rows_table(const PriceFactor& f, const TextStyle& style) {
  Rows rows = {{f.what, "time", "ratio", "distance^2", "weight"}};
  for (const PriceRow& r : f.rows)
    rows.push_back({escape_text(r.row), r.us > 0 ? micros(r.us) : "", fixed(r.ratio, 5),
                    r.us > 0 ? fixed(r.distance, 4) : "", fixed(r.weight, 5)});
  return '\n' + titled_table(rows, "<>>>>", style);
}

void write_row(JsonWriter& json, const PriceRow& r) {
  json.member("row", r.row);
  json.member("us", r.us);
  json.member("ratio", r.ratio);
  json.member("squared_distance", r.distance);
  json.member("weight", r.weight);
}

}  // namespace

std::string explain_price(const Work& work, const Price& price, const PriceParts& parts,
                          const TextStyle& style) {
  std::string s = paint(escape_text(describe(work)), Tone::strong, style) + '\n';
  s +=
      wrap(std::string(name_of(price.origin)) + ", " + escape_text(price.basis), "  ", style.width);
  if (parts.row.us > 0)
    s += '\n' +
         titled_table(Rows{{"row", "time"}, {escape_text(parts.row.row), micros(parts.row.us)}},
                      "<>", style);
  if (parts.form.us > 0) s += form_table(parts.form, style);
  Rows rows = {{"the price", ""}};
  if (parts.row.us > 0) rows.push_back({"row", micros(parts.row.us)});
  if (parts.form.us > 0) rows.push_back({"form", micros(parts.form.us)});
  for (const PriceFactor& f : parts.factors)
    rows.push_back({"x " + escape_text(f.what), fixed(f.value, 5)});
  rows.push_back({"time", micros(to_seconds(price.time) * 1e6)});
  s += '\n' + titled_table(rows, "<>", style);
  for (const PriceFactor& f : parts.factors)
    if (!f.rows.empty()) s += rows_table(f, style);
  return s;
}

void write_price(JsonWriter& json, const Work& work, const Price& price, const PriceParts& parts) {
  json.member("work", describe(work));
  json.member_time("time", price.time);
  json.member("origin", name_of(price.origin));
  json.member("basis", price.basis);
  if (parts.row.us > 0)
    json.object("row", [&] {
      json.member("row", parts.row.row);
      json.member("us", parts.row.us);
    });
  if (parts.form.us > 0)
    json.object("form", [&] {
      const PriceForm& f = parts.form;
      json.member("source", f.source);
      json.member("t0_us", f.t0_us);
      json.member("flops", f.flops);
      json.member("tflops", f.tflops);
      json.member("tflops_share", f.tflops_share);
      json.member("bytes", f.bytes);
      json.member("gbs", f.gbs);
      json.member("gbs_share", f.gbs_share);
      json.member("us", f.us);
    });
  json.objects("factors", parts.factors, [&](const PriceFactor& f) {
    json.member("what", f.what);
    json.member("value", f.value);
    json.objects("rows", f.rows, [&](const PriceRow& r) { write_row(json, r); });
  });
}

}  // namespace stepcast
