// SPDX-License-Identifier: Apache-2.0
// What `stepcast search --out DIR` writes.
#pragma once

#include <string>

#include "scenarios/search/search.h"

namespace stepcast::cli {

// Whether a file of that name is one that SearchFolder writes, or removes.
bool is_of_search_folder(const std::string& name);

class SearchFolder {
 public:
  // Before the search: makes the folder.  Throws InputError E502 if it cannot be made or written
  // to, E501 if it has an answer already and not `force`.
  SearchFolder(std::string path, bool force);

  // The best layouts as scenarios, as Megatron-LM's arguments, and as torchtitan's TOML and NeMo's
  // overrides where these have such a layout; the table, the counts; copies of files that the
  // scenarios name and that lie elsewhere.  Scenarios that an earlier search left there are
  // removed.  `search`: the command that found the answer, in backquotes.
  void write(const SearchAnswer& answer, const std::string& search) const;

 private:
  void write_file(const std::string& name, const std::string& text) const;
  std::string path_;
};

}  // namespace stepcast::cli
