// SPDX-License-Identifier: Apache-2.0
// stepcast import auto FOLDER: what each file in a folder of other tools' files gives.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include "report/json/writer.h"
#include "sim/check.h"
#include "sim/diagnostic.h"
#include "sim/system_error.h"
#include "sim/text.h"
#include "tools/command/import.h"
#include "tools/command/options.h"
#include "tools/command/output.h"

namespace stepcast::cli {
namespace {

namespace fs = std::filesystem;

struct ImportedFile {
  std::string file{};  // below the folder
  std::string kind{};
  bool imported = false;
  bool trains = true;  // not a script of another purpose
  int64_t parameters = 0, gpus = 0;
  std::string why{};  // it is refused, or cannot be simulated yet
};

constexpr std::array<std::string_view, 12> kEndings{".json", ".yaml",  ".yml",    ".toml",
                                                    ".sh",   ".slurm", ".sbatch", ".bash",
                                                    ".log",  ".txt",   ".args",   ".out"};
constexpr uintmax_t kMostBytes = uintmax_t{64} << 20;  // of a file, a log mostly

bool may_be_imported(const fs::directory_entry& entry) {
  std::error_code ignored;
  return entry.is_regular_file(ignored) && entry.file_size(ignored) <= kMostBytes &&
         std::find(kEndings.begin(), kEndings.end(), entry.path().extension().string()) !=
             kEndings.end();
}

struct FoldersContent {
  std::vector<std::string> files;
  std::vector<ImportedFile> unreadable;  // folders
};

// Paths below the folder in the order of their names, so that two runs print the same.  Links to
// folders are not followed.
FoldersContent content_of(const std::string& folder) {
  FoldersContent content;
  std::vector<fs::path> open{folder};
  while (!open.empty()) {
    const fs::path at = std::move(open.back());
    open.pop_back();
    std::error_code error;
    for (fs::directory_iterator entry(at, error), end; !error && entry != end;
         entry.increment(error)) {
      std::error_code none;
      if (entry->is_directory(none) && !entry->is_symlink(none))
        open.push_back(entry->path());
      else if (may_be_imported(*entry))
        content.files.push_back(entry->path().lexically_relative(folder).string());
    }
    if (!error) continue;
    if (at == fs::path(folder))
      throw file_error(
          "E101", "cannot read the folder '" + folder + "': " + system_error_text(error.value()),
          folder);
    content.unreadable.push_back(
        {.file = at.lexically_relative(folder).string() + "/",
         .kind = "unreadable",
         .why = "E101 the folder cannot be read: " + system_error_text(error.value())});
  }
  std::sort(content.files.begin(), content.files.end());
  std::ranges::sort(content.unreadable, {}, &ImportedFile::file);
  return content;
}

ImportedFile import_one(const Arguments& args, const std::string& file) {
  ImportedFile row{file, {}, false, true, 0, 0, {}};
  const std::string path = (fs::path(args.file) / file).string();
  try {
    ImportRequest request = import_request(args, "auto", path);
    request.kind = kind_of_file(request.text);
    if (request.kind.empty()) return row;
    row.kind = request.kind;
    const ImportedRun run = import_run(request);
    row.imported = true;
    row.parameters = run.parameters;
    row.gpus = run.gpus;
    row.why = run.unsupported;
  } catch (const InputError& e) {
    const Diagnostic& d = e.diagnostics.front();
    // One that this file names.
    const bool other = !d.file.empty() && d.file != shown_name(path);
    row.why = fmt::format("{} {}{}{}", d.code, other ? d.file + (d.line > 0 ? " " : ": ") : "",
                          d.line > 0 ? fmt::format("line {}: ", d.line) : "", d.message);
    row.trains = d.code != "E336";
    if (row.kind.empty()) row.kind = "unreadable";
  } catch (const InternalError& e) {  // one file must not cost the table of all others
    row.why = fmt::format("internal error: {}", e.what());
    if (row.kind.empty()) row.kind = "unreadable";
  }
  return row;
}

struct Count {
  int64_t imported = 0, all = 0;
};

std::string count_text(int64_t n) {
  return n > 0 ? fmt::format("{}", n) : "-";
}

std::string table(const std::vector<ImportedFile>& rows,
                  const std::map<std::string, Count>& counts) {
  std::string text = fmt::format("{:<9} {:<14} {:>6} {:>16}  {}\n", "result", "kind", "GPUs",
                                 "parameters", "file: why");
  for (const ImportedFile& r : rows)
    text += fmt::format("{:<9} {:<14} {:>6} {:>16}  {}{}\n",
                        r.imported ? "imported"
                        : r.trains ? "refused"
                                   : "other",
                        r.kind, count_text(r.gpus), count_text(r.parameters), escape_text(r.file),
                        r.why.empty() ? "" : ": " + escape_text(r.why));
  text += '\n';
  for (const auto& [kind, count] : counts)
    text += fmt::format("{}: {} of {} imported\n", kind, count.imported, count.all);
  const auto others =
      std::count_if(rows.begin(), rows.end(), [](const ImportedFile& r) { return !r.trains; });
  if (others > 0) text += fmt::format("no training script: {}\n", others);
  return text;
}

}  // namespace

int import_folder(const Arguments& args) {
  std::vector<ImportedFile> rows;
  std::map<std::string, Count> counts;
  int64_t others = 0;
  FoldersContent content = content_of(args.file);
  std::vector<std::string> read;
  for (const std::string& file : content.files)
    read.push_back((fs::path(args.file) / file).string());
  refuse_overwriting(read, args);
  for (ImportedFile& folder : content.unreadable) {
    ++counts[folder.kind].all;
    rows.push_back(std::move(folder));
  }
  for (const std::string& file : content.files) {
    ImportedFile row = import_one(args, file);
    if (row.kind.empty()) {
      ++others;
      continue;
    }
    if (row.trains) ++counts[row.kind].all;
    counts[row.kind].imported += row.imported ? 1 : 0;
    rows.push_back(std::move(row));
  }
  if (args.json) {
    write_stdout(json_document([&](JsonWriter& json) {
      json.objects("files", rows, [&](const ImportedFile& r) {
        json.member("file", r.file);
        json.member("kind", r.kind);
        json.member("imported", r.imported);
        json.member("trains", r.trains);
        json.member("parameters", r.parameters);
        json.member("gpus", r.gpus);
        json.member("why", r.why);
      });
      json.member("of_other_kinds", others);
    }));
    return 0;
  }
  std::string text = table(rows, counts);
  if (others > 0)
    text += fmt::format("{} other {}: of no run that is known\n", others,
                        others == 1 ? "file" : "files");
  deliver(text, args.output, args.force);
  return 0;
}

}  // namespace stepcast::cli
