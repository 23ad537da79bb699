// SPDX-License-Identifier: Apache-2.0
#include "stepcast/import_json.h"

#include "report/json/writer.h"

namespace stepcast {

std::string import_json(const ImportedRun& run) {
  return json_document([&](JsonWriter& json) {
    json.member("scenario", run.scenario);
    json.member("used", run.used);
    json.member("without_effect", run.ignored);
    json.objects("unknown", run.unknown, [&](const UnknownPlace& u) {
      json.member("name", u.name);
      json.member("file", u.file);
      json.member("line", u.line);
      json.member("col", u.column);
      if (!u.near.empty()) json.member("did_you_mean", u.near);
    });
    json.values("notes", run.notes);
  });
}

}  // namespace stepcast
