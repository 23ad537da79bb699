// SPDX-License-Identifier: Apache-2.0
#include "model/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "model/plan.h"
#include "sim/check.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

// Far above any model or cluster; keeps "(t|)*999999999" from filling the memory.
constexpr size_t kMostSymbols = 1'000'000;

std::string shown(char c) {
  const auto code = static_cast<unsigned char>(c);
  if (code >= 0x20 && code < 0x7f) return std::string("'") + c + "'";
  return fmt::format("byte {}", code);
}

// Reads a layout string and writes it out without repetitions: "E|(t|)*2L" -> "E|t|t|L".
class LayoutExpander {
 public:
  explicit LayoutExpander(std::string_view text) : text_(text) {}

  std::string expand() {
    std::string flat;
    while (skip_decoration()) {
      const std::string part = text_[at_] == '(' ? group() : symbol();
      append(flat, part, repetition());
    }
    return flat;
  }

 private:
  // Moves over commas and blanks; false at the end.
  bool skip_decoration() {
    while (at_ < text_.size() && (text_[at_] == ',' || text_[at_] == ' ')) ++at_;
    return at_ < text_.size();
  }

  std::string symbol() {
    const char c = text_[at_];
    constexpr std::string_view kKnown = "EtmL|";
    if (c == '*')
      refuse(
          fmt::format("the layout has a '*' at character {} with nothing to repeat before it: "
                      "write t*3 or (t|)*3",
                      at_ + 1));
    if (c == ')')
      refuse(fmt::format("the layout has a ')' at character {} that closes nothing", at_ + 1));
    if (kKnown.find(c) == std::string_view::npos)
      refuse(
          fmt::format("the layout has {} at character {}: it is written with E (embedding), "
                      "t (layer), m (multi-token prediction), L (loss), '|' between stages, and "
                      "x*n or (...)*n to repeat",
                      shown(c), at_ + 1));
    ++at_;
    return {c};
  }

  std::string group() {
    const size_t open = at_++;
    std::string inside;
    while (true) {
      if (!skip_decoration())
        refuse(fmt::format("the layout's '(' at character {} is never closed", open + 1));
      if (text_[at_] == ')') break;
      if (text_[at_] == '(')
        refuse(fmt::format(
            "the layout has a '(' at character {} inside parentheses: they do not nest", at_ + 1));
      const std::string part = symbol();
      append(inside, part, repetition());
    }
    ++at_;
    const size_t after = at_;
    if (inside.empty())
      refuse(fmt::format("the layout's parentheses at character {} are empty", open + 1));
    if (!skip_decoration() || text_[at_] != '*')
      refuse(fmt::format("the layout's parentheses that end at character {} need a count: (...)*n",
                         after));
    return inside;
  }

  // The n of a following "*n"; 1 if there is none.
  size_t repetition() {
    const size_t before = at_;
    if (!skip_decoration() || text_[at_] != '*') {
      at_ = before;
      return 1;
    }
    ++at_;
    skip_decoration();
    uint64_t count = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), count);
    if (end == begin)
      refuse(fmt::format("the layout needs a count after '*' at character {}", at_ + 1));
    if (error != std::errc{} || count > kMostSymbols) refuse_size();
    if (count == 0)
      refuse(fmt::format("the layout repeats something 0 times at character {}: leave it out",
                         at_ + 1));
    at_ += static_cast<size_t>(end - begin);
    return static_cast<size_t>(count);
  }

  static void append(std::string& flat, const std::string& part, size_t count) {
    if (part.size() * count > kMostSymbols - flat.size()) refuse_size();
    for (size_t i = 0; i < count; ++i) flat += part;
  }

  [[noreturn]] static void refuse_size() {
    refuse("the layout has more than 1,000,000 layers and stages");
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Megatron's rules: one embedding before everything, one loss after everything.
void check_ends(const std::string& flat) {
  const size_t embedding = flat.find('E'), loss = flat.find('L');
  if (embedding == std::string::npos)
    refuse("the layout has no E: the embedding must stand first, as in \"E|(t|)*3L\"");
  if (loss == std::string::npos)
    refuse("the layout has no L: the loss must stand last, as in \"E|(t|)*3L\"");
  if (flat.find('E', embedding + 1) != std::string::npos)
    refuse("the layout has more than one E: there is one embedding");
  if (flat.find('L', loss + 1) != std::string::npos)
    refuse("the layout has more than one L: there is one loss");
  if (embedding != 0) refuse("the layout's E must stand first: the first stage embeds the tokens");
  if (loss + 1 != flat.size())
    refuse("the layout's L must stand last: the last stage computes the loss");
  if (flat.find('t') == std::string::npos) refuse("the layout has no layers (t)");
  const size_t first = flat.find('m');
  if (first < flat.rfind('t'))
    refuse("the layout has a t after an m: prediction modules follow the last layer");
}

// Where no stage holds the prediction modules, the one of the head does.
void assign_predictions(std::vector<StageContent>& stages, const Transformer& model) {
  int64_t held = 0;
  for (const StageContent& stage : stages) held += stage.predictions;
  for (StageContent& stage : stages)
    if (held == 0 && stage.head) stage.predictions = model.mtp_layers;
  int64_t before = 0;
  for (StageContent& stage : stages) {
    stage.predicted = before;
    before += stage.predictions;
  }
}

}  // namespace

void assign_layers(std::vector<StageContent>& stages, const Transformer& model) {
  bool alike = true;
  for (int64_t i = 1; i < model.layers; ++i)
    alike = alike && layer_kind(model, i) == layer_kind(model, 0);
  int64_t next = 0;
  for (StageContent& stage : stages) {
    stage.kinds.clear();
    const int64_t first = next;
    next += stage.layers;
    for (int64_t i = first; i < next && !alike; ++i) stage.kinds.push_back(layer_kind(model, i));
    const int64_t encoder = model.encoder_layers;
    stage.encodes = encoder > 0 && first <= encoder;
    stage.encoder_ends = first < encoder && encoder <= next;
    stage.decoder_begins = encoder > 0 && first <= encoder && encoder < next;
    stage.encoded = encoder > 0 && first > encoder;
  }
  STEPCAST_CHECK(alike || next == model.layers, "the stages hold all layers");
  assign_predictions(stages, model);
}

void assign_wide_layers(std::vector<StageContent>& stages, const Transformer& model,
                        const Precision& precision) {
  int64_t next = 0;
  for (StageContent& stage : stages) {
    if (stage.layers == 0) continue;
    if (stage.kinds.empty())
      stage.kinds.assign(static_cast<size_t>(stage.layers), layer_kind(model, 0));
    for (LayerKind& kind : stage.kinds) {
      kind.wide =
          next < precision.wide_first_layers || next >= model.layers - precision.wide_last_layers;
      ++next;
    }
  }
}

std::vector<StageContent> even_stages(int64_t layers, int64_t pp, int64_t vpp) {
  STEPCAST_CHECK(layers >= 0 && pp > 0 && vpp > 0 && layers % (pp * vpp) == 0,
                 "layers do not spread evenly over the stages");
  std::vector<StageContent> stages(static_cast<size_t>(pp * vpp));
  for (StageContent& s : stages) s.layers = layers / (pp * vpp);
  stages.front().embedding = true;
  stages.back().head = true;
  return stages;
}

int64_t layer_products(const Transformer& model, int64_t layer) {
  const int64_t factors = model.gated ? 3 : 2;
  const LayerShape shape = layer_shape(model, layer_kind(model, layer));
  const int64_t width =
      model.experts > 0 ? model.experts_per_token * model.moe_ffn + model.shared_ffn : shape.ffn;
  return model.hidden * (4 * shape.heads * shape.head_dim + factors * width);
}

std::vector<StageContent> stages_by_products(const Transformer& model, int64_t stages) {
  STEPCAST_CHECK(stages > 0, "a model has stages");
  int64_t total = model.vocab * model.hidden;
  for (int64_t i = 0; i < model.layers; ++i) total += layer_products(model, i);
  std::vector<StageContent> out(static_cast<size_t>(stages));
  int64_t done = 0;
  size_t stage = 0;
  for (int64_t i = 0; i < model.layers; ++i) {
    ++out[stage].layers;
    done += layer_products(model, i);
    const double share =
        static_cast<double>(total) * static_cast<double>(stage + 1) / static_cast<double>(stages);
    if (static_cast<double>(done) > share && stage + 1 < out.size()) ++stage;
  }
  out.front().embedding = true;
  out.back().head = true;
  return out;
}

std::vector<StageContent> last_stages_fullest(int64_t layers, int64_t stages) {
  STEPCAST_CHECK(stages > 0, "a model has stages");
  std::vector<StageContent> out(static_cast<size_t>(stages));
  for (int64_t i = 0; i < stages; ++i)
    out[static_cast<size_t>(i)].layers = layers / stages + (i >= stages - layers % stages ? 1 : 0);
  out.front().embedding = true;
  out.back().head = true;
  return out;
}

std::vector<StageContent> stages_by_modules(int64_t layers, int64_t stages) {
  constexpr int64_t kBefore = 1, kAfter = 2;  // the embedding; the final norm and the head
  const int64_t modules = kBefore + layers + kAfter;
  STEPCAST_CHECK(stages > 0 && stages <= modules, "a stage has a module");
  std::vector<StageContent> out(static_cast<size_t>(stages));
  int64_t begin = 0;
  for (int64_t i = 0; i < stages; ++i) {
    const int64_t end = begin + modules / stages + (i < modules % stages ? 1 : 0);
    out[static_cast<size_t>(i)].layers =
        std::max<int64_t>(0, std::min(end, kBefore + layers) - std::max(begin, kBefore));
    begin = end;
  }
  out.front().embedding = true;
  out.back().head = true;
  return out;
}

std::vector<StageContent> parse_stage_layout(const std::string& text) {
  const std::string flat = LayoutExpander(text).expand();
  if (flat.empty()) refuse("the layout is empty: write something like \"E|(t|)*3L\"");
  check_ends(flat);
  std::vector<StageContent> stages(1);
  for (const char c : flat) {
    if (c == '|')
      stages.emplace_back();
    else if (c == 't')
      ++stages.back().layers;
    else if (c == 'm')
      ++stages.back().predictions;
    else if (c == 'E')
      stages.back().embedding = true;
    else
      stages.back().head = true;
  }
  return stages;
}

}  // namespace stepcast
