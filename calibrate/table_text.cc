// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table_text.h"

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
    if (!known) problem("E306", word, "unknown family '" + std::string(word) + "'");
  }
}

void TableReader::new_source(std::string_view value, TableText& out) {
  const size_t first = value.find(' ');
  const size_t second =
      first == std::string_view::npos ? first : std::min(value.find(' ', first + 1), value.size());
  const std::string_view kind =
      first == std::string_view::npos ? "" : value.substr(first + 1, second - first - 1);
  if (kind != "measured" && kind != "derived") {
    return problem("E303", value, "a source is a key, 'measured' or 'derived', and a text");
  }
  const std::string_view key = value.substr(0, first);
  if (!is_source_key(key)) {
    return problem("E303", key, "the key of a source has no commas and no control characters");
  }
  for (const TableSource& s : out.sources) {
    if (s.key == key) return problem("E307", key, "source '" + s.key + "' was declared before");
  }
  std::string_view text = value.substr(second);
  if (!text.empty()) text.remove_prefix(1);
  if (out.sources.size() > UINT16_MAX) return problem("E303", key, "too many sources");
  out.sources.push_back({std::string(key), kind == "derived", std::string(text)});
}

// "FAMILY HEX"
void TableReader::checksum(std::string_view value) {
  const size_t blank = std::min(value.find(' '), value.size());
  const std::string_view family = value.substr(0, blank);
  const auto* found = std::find(kChecked.begin(), kChecked.end(), family);
  if (found == kChecked.end() || blank + 1 >= value.size()) {
    return problem("E303", value, "a checksum is a family of rows and 16 hexadecimal digits");
  }
  Checked& c = checked_[static_cast<size_t>(found - kChecked.begin())];
  if (c.stated) return problem("E307", family, "a second checksum of the same rows");
  c.stated = value.substr(blank + 1);
}

void TableReader::add_to_checksum(size_t checked) {
  Checked& c = checked_[checked];
  c.hash = hash_text("\n", hash_text(row_, c.hash));
  if (c.first_line > 0) return;
  c.first_line = line_;
  c.first_row = row_;
}

void TableReader::header(TableText& out) {
  std::string_view rest = row_.substr(1);
  if (rest.starts_with(' ')) rest.remove_prefix(1);
  const size_t colon = rest.find(": ");
  if (colon == std::string_view::npos) return;  // a remark
  const std::string_view key = rest.substr(0, colon);
  const std::string_view value = rest.substr(colon + 2);
  if (key == "format") {
    format_ = whole(value, "the format");
    return;
  }
  if (key == "rows") {
    announced_ = whole(value, "the number of rows", 0);
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
    out.nvlink_gbs = number(value, "nvlink_gbs");
  } else if (key == "in_network_reduction") {
    out.in_network_reduction = value == "yes";
    if (value != "yes" && value != "no") problem("E306", value, "yes or no");
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
  TableReader again(text_, file_, options_);
  const size_t least = least_fields(family);
  std::map<std::string_view, int> seen;
  while (again.next_line()) {
    const size_t count = again.split();
    if (again.fields_[0] != family || count < least) continue;
    // All fields but time, source and spread.
    const std::string_view key = again.row_.substr(
        0, static_cast<size_t>(again.fields_[least - 2].data() - again.row_.data()));
    const auto [before, is_new] = seen.try_emplace(key, again.line_);
    if (is_new) continue;
    row_ = again.row_;
    line_ = again.line_;
    problem("E307", row_,
            "the same as line " + std::to_string(before->second) + " but for time and source");
    row_ = {};
    return;
  }
  problem("E307", {}, "two rows of '" + std::string(family) + "' for the same shape");
}

TableText TableReader::read() {
  TableText out;
  if (!next_line() || row_ != kTableMagic) {
    problem("E301", row_, "not a cost table",
            "the first line must be '" + std::string(kTableMagic) + "'");
    throw InputError(problems_);
  }
  int64_t rows = 0;
  while (next_line()) {
    if (row_.empty()) continue;
    if (row_.front() == '#') {
      header(out);
    } else {
      ++rows;
      row(out);
    }
    if (format_ > kNewestTableFormat) {
      problem("E302", row_,
              "table format " + std::to_string(format_) + " is newer than this " +
                  "version of Stepcast reads (" + std::to_string(kNewestTableFormat) + ")");
      throw InputError(problems_);
    }
  }
  finish(out, rows);
  if (!problems_.empty()) throw InputError(problems_);
  return out;
}

void TableReader::finish(const TableText& out, int64_t rows) {
  row_ = {};
  if (format_ == 0) problem("E303", {}, "the header has no '# format: 2'");
  if (out.gpu.empty()) problem("E303", {}, "the header has no '# gpu: NAME'");
  if (!announced_ && !options_.accept_edits) {
    problem("E303", {}, "the header has no '# rows: N'",
            "'stepcast calibrate fit FILE --accept-edits' takes it as it is and counts");
  } else if (!options_.accept_edits && *announced_ != rows) {
    problem("E308", {},
            "the header announces " + std::to_string(*announced_) + " rows, there are " +
                std::to_string(rows) + ": truncated, or edited",
            "'stepcast calibrate fit FILE --accept-edits' takes it as it is and counts anew");
  }
  if (!problems_.empty()) return;
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
    line_ = c.first_line;
    row_ = c.first_row;
    const std::string what =
        i == 0 ? "the header was" : "rows of '" + std::string(kChecked[i]) + "' were";
    problem("E309", any ? row_ : std::string_view{},
            what + (!c.stated ? " written without a checksum"
                    : any     ? " edited"
                              : " removed"),
            "'stepcast calibrate fit FILE --accept-edits' takes it as it is and signs anew");
    row_ = {};
  }
}

TableText parse_table_text(std::string_view text, const std::string& file_name,
                           const TableReadOptions& options) {
  return TableReader(text, file_name, options).read();
}

}  // namespace stepcast
