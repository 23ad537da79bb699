// SPDX-License-Identifier: Apache-2.0
// A folder that stands for the config.json in it: of a model as it was downloaded, or in the cache
// of the Hub's client.
#pragma once

#include <string>

namespace stepcast {

// The config.json in the folder `path`; of the Hub's cache (models--ORG--NAME) that of the snapshot
// that its refs/main names.  `path` itself if it is no folder, or has none.
std::string config_in(const std::string& path);

// The name of the folder that a file lies in; of a snapshot in the Hub's cache that of the model.
std::string folder_of(const std::string& file);

}  // namespace stepcast
