// Finding case files.
#include "properties/kept_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "properties/case_judge.h"
#include "properties/checkout_paths.h"
#include "reference/error.h"
#include "reference/random.h"

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

/// At most 60 bytes; what is cut off lives on as a hash.
std::string shortened(const std::string& text) {
  constexpr std::size_t kMost = 60, kHash = 13;
  if (text.size() <= kMost) return text;
  return fmt::format("{}-{:012x}", text.substr(0, kMost - kHash), stream_key(0, text) >> 16);
}

}  // namespace

std::string kept_name(const fs::path& file) {
  const std::string stem = file.stem().string(), mark = "-kept-";
  const std::size_t kept = stem.rfind(mark);
  return "kept-" + shortened(kept == std::string::npos ? stem : stem.substr(kept + mark.size()));
}

std::string failure_file_name(const std::string& property, const std::string& subject,
                              const std::string& which) {
  std::string name = subject;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '.') c = '-';
  }
  // The hash is that of the subject's real name: others may come to the same characters.
  if (name.size() > 60) name = shortened(name + subject);
  return fmt::format("{}-{}-{}.json", property, name, which);
}

fs::path regressions_folder() {
  const char* set = std::getenv("KVCONFORM_REGRESSIONS_DIR");
  const fs::path folder = set != nullptr && *set != '\0' ? set : kRegressionsFolder;
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
  fs::path self = fs::weakly_canonical(fs::absolute(report, code), code);
  if (code) return kept;
  if (!self.has_filename()) self = self.parent_path();  // "reports/tuesday/"
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
