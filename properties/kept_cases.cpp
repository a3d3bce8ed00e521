// Finding case files.
#include "properties/kept_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "properties/case_judge.h"
#include "reference/error.h"

namespace kvconform {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::error_code unreadable;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, unreadable), end; !unreadable && it != end;
       it.increment(unreadable)) {
    entries.push_back(it->path());
  }
  std::sort(entries.begin(), entries.end());  // not in the order of the file system
  return entries;
}

KeptCase read_kept(const fs::path& file) {
  KeptCase kept{read_case(file), file};
  find_property(kept.test_case.property);
  return kept;
}

/// What two cases have in common where they are the same for whoever runs them.
nlohmann::json essence(const Case& test_case) {
  nlohmann::json value = to_json(test_case);
  for (const char* field : {"subject", "against", "seed", "index", "comment"}) value.erase(field);
  return value;
}

}  // namespace

fs::path regressions_folder() {
  const char* set = std::getenv("KVCONFORM_REGRESSIONS_DIR");
  const fs::path folder = set != nullptr && *set != '\0' ? set : KVCONFORM_REGRESSIONS_SOURCE_DIR;
  if (fs::is_directory(folder)) return folder;
  throw Error("KV2006", fmt::format("the folder of kept cases {} does not exist", folder.string()),
              "set KVCONFORM_REGRESSIONS_DIR to properties/regressions of a source tree");
}

std::vector<KeptCase> read_kept_cases(const fs::path& folder) {
  std::error_code code;
  if (!fs::is_directory(folder, code))
    throw Error("KV2006", fmt::format("{} is no folder of cases", folder.string()),
                "name a folder with case files, e.g. failures/ of a report");
  std::vector<KeptCase> kept;
  for (const fs::path& file : entries_of(folder)) {
    if (file.extension() == ".json") kept.push_back(read_kept(file));
  }
  return kept;
}

std::vector<KeptCase> failures_beside(const fs::path& report) {
  std::vector<KeptCase> kept;
  std::error_code code;
  const fs::path self = fs::weakly_canonical(report, code);
  if (code) return kept;
  for (const fs::path& folder : entries_of(self.parent_path())) {
    if (folder == self || !fs::exists(folder / "summary.json", code)) continue;
    for (const fs::path& file : entries_of(folder / "failures")) {
      try {
        if (file.extension() == ".json") kept.push_back(read_kept(file));
      } catch (const Error&) {  // of another version, or half gone: no reason to refuse this run
      }
    }
  }
  return kept;
}

void add_kept(std::vector<KeptCase>& kept, const std::vector<KeptCase>& more) {
  std::vector<nlohmann::json> known;
  for (const KeptCase& one : kept) known.push_back(essence(one.test_case));
  for (const KeptCase& one : more) {
    nlohmann::json value = essence(one.test_case);
    if (std::find(known.begin(), known.end(), value) != known.end()) continue;
    known.push_back(std::move(value));
    kept.push_back(one);
  }
}

}  // namespace kvconform
