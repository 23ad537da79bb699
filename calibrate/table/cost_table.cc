// SPDX-License-Identifier: Apache-2.0
// One table's lookup.
//
// A table is kept in the form in which its families are asked:
//
//   products            GemmPrices: groups of one type and layout, each with an index of neighbours
//   attention           AttentionPrices: the same by pass and type
//   kernels, copies     a curve of time over bytes for each kernel, and for each direction
//   collectives         a curve for each collective, group shape, wires and NIC bandwidth
//   launches, interference   single numbers
//
// and a work is handed to its family.  An example from the table of the H100: a layer norm of its
// backward pass moves 100 MB.  The table has no rows of layer_norm_backward, so stand_in() names
// layer_norm, which reads and writes the same tensors; that has rows of 67 and 134 MB, and the time
// is read off the straight line between the two in log-log coordinates (curve.h).  Because another
// kernel stood in, the answer is an extrapolation, whatever the curve says.
//
// A product of 8192 x 14336 x 4096 has no row of its own and none of the same n and k on both sides
// of m.  GemmPrices takes the smooth roofline of the table's fit, 1347 us, times the mean ratio of
// the 16 nearest rows to theirs, 0.987; docs/costs.md goes through this one row by row.
//
// Collectives are handed out as curves: which of them answers for a cluster, and how, is said in
// calibrate/price/collective_price.cc.
#include "calibrate/table/cost_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <mutex>
#include <span>
#include <tuple>
#include <utility>

#include "calibrate/table/attention_prices.h"
#include "calibrate/table/curve.h"
#include "calibrate/table/gemm_prices.h"
#include "calibrate/table/table_text.h"
#include "sim/check.h"
#include "sim/diagnostic.h"
#include "sim/text.h"

namespace stepcast {

std::span<const std::pair<std::string_view, std::string_view>> shipped_table_files();

namespace {

std::string shape_text(int64_t m, const Work& w) {
  return fmt::format("{}x{}x{}", m, w.n, w.k);
}

std::string rows_text(const TableBasis& b, const Work& w) {
  const bool attention =
      w.kind == WorkKind::attention_forward || w.kind == WorkKind::attention_backward;
  switch (b.from) {
    case TableBasis::From::row: return attention ? "exact row" : "row " + shape_text(w.m, w);
    case TableBasis::From::rows_beside:
      return fmt::format("rows {} and m = {}", shape_text(b.low, w), b.high);
    case TableBasis::From::nearest_rows:
      return fmt::format("{} nearest {}", b.used, attention ? "attention rows" : "rows");
    case TableBasis::From::kernel: return fmt::format("rows of {}", name_of(b.kernel));
    case TableBasis::From::copies: return fmt::format("copies {}", name_of(b.copy));
  }
  return {};
}

}  // namespace

std::string basis_text(const TableBasis& b, const Work& work) {
  Work shape = work;
  if (b.groups > 0) shape.m *= b.groups;
  std::string text = rows_text(b, shape);
  if (b.other_layout) text += " of layout tn, by the ratio of layouts";
  if (b.attention != AttentionKernel::table) text += fmt::format(" of {}", name_of(b.attention));
  if (b.lacking != AttentionKernel::table)
    text += fmt::format(", as there are none of {}", name_of(b.lacking));
  if (b.groups > 0) text += fmt::format(" of one matrix, in {} groups", b.groups);
  return text;
}

namespace {

constexpr double kDefaultKernelFloor = 2.5;  // us; the tables state it as fit of memory_bound

// The measured kernel that stands for another one of the same traffic pattern.
Kernel stand_in(Kernel k) {
  switch (k) {
    case Kernel::layer_norm_backward: return Kernel::layer_norm;
    case Kernel::rms_norm_backward: return Kernel::rms_norm;
    case Kernel::rotary_backward: return Kernel::rotary;
    case Kernel::softmax_backward: return Kernel::softmax;
    case Kernel::activation_backward: return Kernel::activation;
    case Kernel::rms_norm: return Kernel::layer_norm;
    case Kernel::transpose:
    case Kernel::permute:
    case Kernel::unpermute:
    case Kernel::cast: return Kernel::copy;
    default: return Kernel::add;
  }
}

void sort_curve(Curve& c) {
  std::sort(c.begin(), c.end(),
            [](const CurvePoint& a, const CurvePoint& b) { return a.bytes < b.bytes; });
}

void mark_derived(Curve& c) {
  for (CurvePoint& p : c) p.derived = true;
}

}  // namespace

struct CostTable::Rows {
  using CollectiveKey = std::tuple<WorkKind, int64_t, int64_t, int64_t>;

  std::string gpu;
  uint64_t text_hash = 0;
  std::string share_from;
  std::array<bool, kFamilies> shared{};
  double power_watts = 0;
  double nvlink_gbs = 0;
  bool in_network_reduction = false;
  std::vector<FitRow> fits;  // of gemms and attentions
  GemmPrices gemms;
  AttentionPrices attentions;
  std::map<Kernel, Curve> kernels;
  double kernel_floor_us = kDefaultKernelFloor;
  std::map<CollectiveKey, std::vector<CollectiveCurve>> collectives;
  std::map<CopyKind, Curve> copies;
  std::optional<double> launch_us, graph_launch_us;
  std::optional<Interference> interference;

  std::optional<TablePrice> attention(const Work& work, GpuArch arch, PriceParts* parts) const;
  std::optional<TablePrice> memory(const Work& work) const;
  std::optional<TablePrice> host_copy(Bytes bytes) const;
};

namespace {

template <class Rows>
void add_collectives(const TableText& text, Rows& rows) {
  for (const CollectiveRow& r : text.collectives) {
    const Wires& wires = text.sources[r.source].wires;
    auto& curves = rows.collectives[{r.kind, r.ranks, r.nodes, r.ranks_per_node}];
    auto curve = std::find_if(curves.begin(), curves.end(), [&](const CollectiveCurve& c) {
      return c.nic_gbs == r.nic_gbs && c.wires == wires;
    });
    if (curve == curves.end()) {
      curves.push_back({wires, r.nic_gbs, {}});
      curve = curves.end() - 1;
    }
    const TableSource& source = text.sources[r.source];
    curve->curve.push_back({r.bytes, r.us, source.derived, source.in_training()});
  }
  for (auto& [key, curves] : rows.collectives) {
    for (auto& c : curves) sort_curve(c.curve);
  }
}

}  // namespace

std::optional<TablePrice> CostTable::Rows::attention(const Work& work, GpuArch arch,
                                                     PriceParts* parts) const {
  const AttentionPrices* own = shipped_attention(work.attention, gpu);
  const bool shares = shared[static_cast<size_t>(Family::attention)];
  const AttentionPrices* of_kernel =
      own == nullptr && shares ? shipped_attention(work.attention, share_from) : own;
  std::optional<TablePrice> price;
  if (of_kernel != nullptr) price = of_kernel->time(work, parts);
  if (!price) {
    price = attentions.time(work, parts);
    const bool itself =
        work.attention == AttentionKernel::table ||
        (work.attention == AttentionKernel::flash2 && architecture(arch).table_has_flash2);
    if (!price || itself) return price;
    price->origin = Origin::extrapolated;
    price->basis.lacking = work.attention;
    return price;
  }
  price->basis.attention = work.attention;
  if (own == nullptr) price->origin = Origin::extrapolated;
  return price;
}

std::optional<TablePrice> CostTable::Rows::memory(const Work& work) const {
  Kernel kernel = work.kernel;
  auto found = kernels.find(kernel);
  while (found == kernels.end() && kernel != Kernel::add) {
    kernel = stand_in(kernel);
    found = kernels.find(kernel);
  }
  if (found == kernels.end()) return std::nullopt;
  const CurveValue v = value_on(found->second, work.bytes.value, kernel_floor_us);
  TablePrice price{
      v.us, v.origin, {.from = TableBasis::From::kernel, .kernel = kernel}, v.in_training};
  if (kernel != work.kernel) price.origin = Origin::extrapolated;
  return price;
}

std::optional<TablePrice> CostTable::Rows::host_copy(Bytes bytes) const {
  std::optional<TablePrice> slower;
  for (const CopyKind kind : {CopyKind::h2d, CopyKind::d2h}) {
    const auto found = copies.find(kind);
    if (found == copies.end()) continue;
    const CurveValue v = value_on(found->second, bytes.value, kernel_floor_us);
    if (slower && v.us <= slower->us) continue;
    slower = TablePrice{v.us, v.origin, {.from = TableBasis::From::copies, .copy = kind}};
  }
  return slower;
}

CostTable::CostTable(std::unique_ptr<Rows> rows) : rows_(std::move(rows)) {}
CostTable::CostTable(CostTable&&) noexcept = default;
CostTable& CostTable::operator=(CostTable&&) noexcept = default;
CostTable::~CostTable() = default;

CostTable CostTable::parse(std::string_view text, const std::string& file_name) {
  CostTable table = of(parse_table_text(text, file_name));
  table.rows_->text_hash = hash_text(text);
  return table;
}

CostTable CostTable::of(const TableText& table) {
  auto rows = std::make_unique<Rows>();
  rows->gpu = table.gpu;
  rows->share_from = table.share_from;
  rows->shared = table.shared;
  rows->power_watts = table.power_watts;
  rows->nvlink_gbs = table.nvlink_gbs;
  rows->in_network_reduction = table.in_network_reduction;
  rows->fits = table.fits;
  rows->gemms = GemmPrices(table);
  rows->attentions = AttentionPrices(table);
  for (const MemoryRow& r : table.memories) {
    const TableSource& source = table.sources[r.source];
    rows->kernels[r.kernel].push_back({r.bytes, r.us, source.derived, source.in_training()});
  }
  for (auto& [kernel, curve] : rows->kernels) sort_curve(curve);
  if (const FitRow* fit = find_fit(table.fits, WorkKind::memory_bound, DType::bf16)) {
    if (fit->t0_us > 0) rows->kernel_floor_us = fit->t0_us;
  }
  add_collectives(table, *rows);
  for (const CopyRow& r : table.copies) {
    rows->copies[r.kind].push_back({r.bytes, r.us, table.sources[r.source].derived});
  }
  for (auto& [kind, curve] : rows->copies) sort_curve(curve);
  rows->launch_us = table.launch_us;
  rows->graph_launch_us = table.graph_launch_us;
  if (table.interference)
    rows->interference = Interference{table.interference->first, table.interference->second};
  return CostTable(std::move(rows));
}

Power CostTable::power() const {
  return {rows_->power_watts};
}

const std::string& CostTable::name() const {
  return rows_->gpu;
}

uint64_t CostTable::text_hash() const {
  return rows_->text_hash;
}

const std::string& CostTable::share_from() const {
  return rows_->share_from;
}

const FitRow* CostTable::fit_of(const Work& work) const {
  switch (work.kind) {
    case WorkKind::gemm:
    case WorkKind::grouped_gemm: return find_fit(rows_->fits, WorkKind::gemm, work.dtype);
    case WorkKind::attention_forward:
    case WorkKind::attention_backward: return find_fit(rows_->fits, work.kind, work.dtype);
    default: return nullptr;
  }
}

void CostTable::take_over(const CostTable& other) {
  const Rows& from = *other.rows_;
  Rows& to = *rows_;
  const auto takes = [&](Family f) { return to.shared[static_cast<size_t>(f)]; };
  const auto take_fits = [&](WorkKind kind) {
    const auto is_one = [&](const FitRow& f) { return f.kind == kind; };
    std::erase_if(to.fits, is_one);
    std::copy_if(from.fits.begin(), from.fits.end(), std::back_inserter(to.fits), is_one);
  };
  if (takes(Family::gemm)) {
    take_fits(WorkKind::gemm);
    to.gemms = from.gemms;
    to.gemms.mark_derived();
    if (!to.interference) to.interference = from.interference;
  }
  if (takes(Family::attention)) {
    take_fits(WorkKind::attention_forward);
    take_fits(WorkKind::attention_backward);
    to.attentions = from.attentions;
    to.attentions.mark_derived();
  }
  if (takes(Family::memory)) {
    to.kernels = from.kernels;
    to.kernel_floor_us = from.kernel_floor_us;
    for (auto& [kernel, curve] : to.kernels) mark_derived(curve);
  }
  if (takes(Family::collective)) {
    to.collectives = from.collectives;
    for (auto& [key, curves] : to.collectives) {
      for (auto& c : curves) mark_derived(c.curve);
    }
  }
  if (takes(Family::launch)) {
    if (!to.launch_us) to.launch_us = from.launch_us;
    if (!to.graph_launch_us) to.graph_launch_us = from.graph_launch_us;
    if (to.copies.empty()) {
      to.copies = from.copies;
      for (auto& [kind, curve] : to.copies) mark_derived(curve);
    }
  }
}

std::optional<TablePrice> CostTable::lookup(const Work& work, const Gpu& gpu,
                                            PriceParts* parts) const {
  STEPCAST_CHECK(!is_communication(work.kind), describe(work));
  switch (work.kind) {
    case WorkKind::gemm: return rows_->gemms.time(work, gpu.sms, parts);
    case WorkKind::grouped_gemm: return rows_->gemms.grouped_time(work, gpu.sms, parts);
    case WorkKind::attention_forward:
    case WorkKind::attention_backward: return rows_->attention(work, gpu.arch, parts);
    case WorkKind::memory_bound: return rows_->memory(work);
    case WorkKind::host_copy: return rows_->host_copy(work.bytes);
    default: return std::nullopt;
  }
}

std::optional<Price> CostTable::compute(const Work& work, const Gpu& gpu, PriceParts* parts) const {
  const std::optional<TablePrice> p = lookup(work, gpu, parts);
  if (!p) return std::nullopt;
  Price price{time_from_seconds(p->us * 1e-6), p->origin,
              fmt::format("table {}: {}", name(), basis_text(p->basis, work))};
  price.in_training = p->in_training;
  return price;
}

std::span<const CollectiveCurve> CostTable::collectives(WorkKind kind, int64_t ranks, int64_t nodes,
                                                        int64_t ranks_per_node) const {
  const auto found = rows_->collectives.find({kind, ranks, nodes, ranks_per_node});
  if (found == rows_->collectives.end()) return {};
  return found->second;
}

double CostTable::nvlink_gbs() const {
  return rows_->nvlink_gbs;
}

bool CostTable::in_network_reduction() const {
  return rows_->in_network_reduction;
}

std::optional<Interference> CostTable::interference() const {
  return rows_->interference;
}

std::optional<Time> CostTable::launch() const {
  if (!rows_->launch_us) return std::nullopt;
  return time_from_seconds(*rows_->launch_us * 1e-6);
}

std::optional<Time> CostTable::graph_launch() const {
  if (!rows_->graph_launch_us) return std::nullopt;
  return time_from_seconds(*rows_->graph_launch_us * 1e-6);
}

namespace {

std::string path_of(std::string_view gpu) {
  return fmt::format("calibrate/data/tables/{}.csv", gpu);
}

}  // namespace

std::string_view shipped_table_text(std::string_view gpu_name) {
  const std::string path = path_of(gpu_name);
  for (const auto& [file, text] : shipped_table_files()) {
    if (file == path) return text;
  }
  return {};
}

const CostTable* shipped_table(std::string_view gpu_name) {
  static std::mutex mutex;
  static std::map<std::string, CostTable, std::less<>> parsed;
  {
    const std::lock_guard lock(mutex);
    const auto found = parsed.find(gpu_name);
    if (found != parsed.end()) return &found->second;
  }
  const std::string_view text = shipped_table_text(gpu_name);
  if (text.empty()) return nullptr;
  CostTable table = CostTable::parse(text, path_of(gpu_name));
  if (!table.share_from().empty()) {
    const CostTable* other = shipped_table(table.share_from());
    STEPCAST_CHECK(other != nullptr, "a shipped table shares one that does not exist");
    table.take_over(*other);
  }
  const std::lock_guard lock(mutex);
  return &parsed.try_emplace(std::string(gpu_name), std::move(table)).first->second;
}

}  // namespace stepcast
