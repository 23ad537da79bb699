// SPDX-License-Identifier: Apache-2.0
#include "scenarios/document/config_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "sim/text.h"

namespace stepcast {
namespace {

// The cache of the Hub's client: models--ORG--NAME/refs/main names the folder below snapshots/.
std::filesystem::path snapshot_in(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::error_code none;
  if (!fs::is_directory(folder / "snapshots", none)) return folder;
  std::vector<fs::path> all;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / "snapshots", none))
    if (fs::exists(entry.path() / "config.json", none)) all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  if (all.size() > 1 && fs::is_regular_file(folder / "refs" / "main", none)) {
    std::string main;
    std::ifstream reference(folder / "refs" / "main");
    std::getline(reference, main);
    for (const fs::path& path : all)
      if (path.filename() == trim(main)) return path;
  }
  return all.empty() ? folder : all.front();
}

}  // namespace

std::string config_in(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code none;
  if (!fs::is_directory(path, none)) return path;
  const fs::path config = snapshot_in(path) / "config.json";
  return fs::exists(config, none) ? config.string() : path;
}

std::string folder_of(const std::string& file) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::absolute(file).lexically_normal().parent_path();
  const std::string cached = folder.parent_path().parent_path().filename().string();
  if (folder.parent_path().filename() != "snapshots" || !cached.starts_with("models--"))
    return folder.filename().string();
  return cached.substr(cached.rfind("--") + 2);
}

}  // namespace stepcast
