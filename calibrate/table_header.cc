// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>

#include "calibrate/row_shape.h"
#include "calibrate/table_reader.h"
#include "sim/diagnostic.h"

namespace stepcast {

void TableReader::share(std::string_view value, TableText& out) {
  bool first = true;
  while (!value.empty()) {
    const size_t end = std::min(value.find(' '), value.size());
    const std::string_view word = value.substr(0, end);
    value.remove_prefix(std::min(end + 1, value.size()));
    if (first) {
      out.share_from = std::string(word);
      first = false;
      continue;
    }
    bool known = false;
    for (size_t i = 0; i < out.shared.size(); ++i) {
      if (name_of(static_cast<Family>(i)) == word) known = out.shared[i] = true;
    }
    if (!known) in_.problem("E306", word, "unknown family '" + std::string(word) + "'");
  }
}

void TableReader::new_source(std::string_view value, TableText& out) {
  const size_t first = value.find(' ');
  const size_t second =
      first == std::string_view::npos ? first : std::min(value.find(' ', first + 1), value.size());
  const std::string_view kind =
      first == std::string_view::npos ? "" : value.substr(first + 1, second - first - 1);
  if (kind != "measured" && kind != "derived") {
    return in_.problem("E303", value, "a source is a key, 'measured' or 'derived', and a text");
  }
  const std::string_view key = value.substr(0, first);
  if (!is_source_key(key)) {
    return in_.problem("E303", key, "the key of a source has no commas and no control characters");
  }
  for (const TableSource& s : out.sources) {
    if (s.key == key) return in_.problem("E307", key, "source '" + s.key + "' was declared before");
  }
  std::string_view text = value.substr(second);
  if (!text.empty()) text.remove_prefix(1);
  if (out.sources.size() > UINT16_MAX) return in_.problem("E303", key, "too many sources");
  out.sources.push_back({std::string(key), kind == "derived", std::string(text)});
}

// "FAMILY HEX"
void TableReader::checksum(std::string_view value) {
  const size_t blank = std::min(value.find(' '), value.size());
  const std::string_view family = value.substr(0, blank);
  const auto* found = std::find(kChecked.begin(), kChecked.end(), family);
  if (found == kChecked.end() || blank + 1 >= value.size()) {
    return in_.problem("E303", value, "a checksum is a family of rows and 16 hexadecimal digits");
  }
  Checked& c = checked_[static_cast<size_t>(found - kChecked.begin())];
  if (c.stated) return in_.problem("E307", family, "a second checksum of the same rows");
  c.stated = value.substr(blank + 1);
}

void TableReader::add_to_checksum(size_t checked) {
  Checked& c = checked_[checked];
  c.hash = hash_text("\n", hash_text(in_.line, c.hash));
  if (c.first_line > 0) return;
  c.first_line = in_.line_number;
  c.first_row = in_.line;
}

void TableReader::header(TableText& out) {
  const auto said = in_.key_and_value();
  if (!said) return;  // a remark
  const auto [key, value] = *said;
  if (key == "format") {
    format_ = in_.whole(value, "the format");
    return;
  }
  if (key == "rows") {
    announced_ = in_.whole(value, "the number of rows", 0);
    return;
  }
  if (key == "checksum") return checksum(value);
  if (key == "gpu") {
    out.gpu = std::string(value);
  } else if (key == "about") {
    out.about = std::string(value);
  } else if (key == "software") {
    out.software = std::string(value);
  } else if (key == "conditions") {
    out.conditions.emplace_back(value);
  } else if (key == "nvlink_gbs") {
    out.nvlink_gbs = in_.number(value, "nvlink_gbs", NumberRange::positive);
  } else if (key == "in_network_reduction") {
    out.in_network_reduction = value == "yes";
    if (value != "yes" && value != "no") in_.problem("E306", value, "yes or no");
  } else if (key == "source") {
    new_source(value, out);
  } else if (key == "share") {
    share(value, out);
  } else {
    return;  // a remark with a colon
  }
  add_to_checksum(0);
}

template <class Row>
void TableReader::refuse_duplicates(const std::vector<Row>& rows, std::string_view family) {
  // Written tables are sorted: seen at a glance.
  const auto not_ascending = [](const Row& a, const Row& b) { return shape(a) >= shape(b); };
  if (std::ranges::adjacent_find(rows, not_ascending) == rows.end()) return;
  std::vector<decltype(shape(rows[0]))> shapes;
  shapes.reserve(rows.size());
  for (const Row& r : rows) shapes.push_back(shape(r));
  std::ranges::sort(shapes);
  if (std::ranges::adjacent_find(shapes) != shapes.end()) find_duplicate(family);
}

// Names the line of the first repeated row of a family.  Only for the message.
void TableReader::find_duplicate(std::string_view family) {
  RowReader again(text_, file_, {}, {});
  const size_t least = least_fields(family);
  std::map<std::string_view, int> seen;
  while (again.next()) {
    const size_t count = again.split();
    if (again.fields[0] != family || count < least) continue;
    // All fields but time, source and spread.
    const std::string_view key = again.line.substr(
        0, static_cast<size_t>(again.fields[least - 2].data() - again.line.data()));
    const auto [before, is_new] = seen.try_emplace(key, again.line_number);
    if (is_new) continue;
    in_.line = again.line;
    in_.line_number = again.line_number;
    in_.problem("E307", in_.line,
                "the same as line " + std::to_string(before->second) + " but for time and source");
    in_.line = {};
    return;
  }
  in_.problem("E307", {}, "two rows of '" + std::string(family) + "' for the same shape");
}

TableText TableReader::read() {
  TableText out;
  if (!in_.next() || in_.line != kTableMagic) {
    in_.problem("E301", in_.line, "not a cost table",
                "the first line must be '" + std::string(kTableMagic) + "'");
    in_.throw_if_any();
  }
  int64_t rows = 0;
  while (in_.next()) {
    if (in_.line.empty()) continue;
    if (in_.line.front() == '#') {
      header(out);
    } else {
      ++rows;
      row(out);
    }
    if (format_ > kNewestTableFormat) {
      in_.problem("E302", in_.line,
                  "table format " + std::to_string(format_) + " is newer than this " +
                      "version of Stepcast reads (" + std::to_string(kNewestTableFormat) + ")");
      in_.throw_if_any();
    }
  }
  finish(out, rows);
  in_.throw_if_any();
  return out;
}

void TableReader::finish(const TableText& out, int64_t rows) {
  in_.line = {};
  if (format_ == 0) in_.problem("E303", {}, "the header has no '# format: 2'");
  if (out.gpu.empty()) in_.problem("E303", {}, "the header has no '# gpu: NAME'");
  if (!announced_ && !options_.accept_edits) {
    in_.problem("E303", {}, "the header has no '# rows: N'",
                "'stepcast calibrate fit FILE --accept-edits' takes it as it is and counts");
  } else if (!options_.accept_edits && *announced_ != rows) {
    in_.problem("E308", {},
                "the header announces " + std::to_string(*announced_) + " rows, there are " +
                    std::to_string(rows) + ": truncated, or edited",
                "'stepcast calibrate fit FILE --accept-edits' takes it as it is and counts anew");
  }
  if (in_.has_problems()) return;
  if (!options_.accept_edits) compare_checksums();
  refuse_duplicates(out.gemms, "gemm");
  refuse_duplicates(out.attentions, "attention");
  refuse_duplicates(out.memories, "memory");
  refuse_duplicates(out.copies, "copy");
  refuse_duplicates(out.collectives, "collective");
}

void TableReader::compare_checksums() {
  for (size_t i = 0; i < kChecked.size(); ++i) {
    const Checked& c = checked_[i];
    const bool any = c.first_line > 0;
    if (!c.stated && (!any || format_ < 2)) continue;
    if (any && c.stated == hex_of(c.hash)) continue;
    in_.line_number = c.first_line;
    in_.line = c.first_row;
    const std::string what =
        i == 0 ? "the header was" : "rows of '" + std::string(kChecked[i]) + "' were";
    in_.problem("E309", any ? in_.line : std::string_view{},
                what + (!c.stated ? " written without a checksum"
                        : any     ? " edited"
                                  : " removed"),
                "'stepcast calibrate fit FILE --accept-edits' takes it as it is and signs anew");
    in_.line = {};
  }
}

}  // namespace stepcast
