// Comparing what was asked then with what is asked now.
#include "properties/reports/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reference/error.h"

namespace kvconform {
namespace {

std::string all_or(const std::vector<std::string>& names) {
  return names.empty() ? "all" : fmt::format("{}", fmt::join(names, ", "));
}

std::string none_or(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

std::string ledger_text(const std::vector<KnownFailure>& ledger) {
  nlohmann::json entries = nlohmann::json::array();
  for (const KnownFailure& entry : ledger) entries.push_back(to_json(entry));
  return ledger.empty() ? "none"
                        : entries.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::vector<Setting> settings_of(const RunSummary& run) {
  const Asked& asked = run.asked;
  return {{"--subject", none_or(asked.subjects)},
          {"--against", asked.against},
          {"--property", all_or(asked.properties)},
          {"--model", none_or(asked.models)},
          {"--seed", fmt::format("{}", run.seed)},
          {"--size", to_string(run.size)},
          {"--shard", fmt::format("{}/{}", run.shard, run.shards)},
          {"--cases",
           run.cases_per_property == 0 ? "by time" : fmt::format("{}", run.cases_per_property)},
          {"--seconds", asked.seconds == 0 ? "no limit" : fmt::format("{}", asked.seconds)},
          {"--timeout", fmt::format("{}", asked.timeout)},
          {"--known-failures", ledger_text(asked.known)},
          {"the commit of the program", run.commit.empty() ? "unknown" : run.commit}};
}

void require_same_run(const RunSummary& before, const RunSummary& now,
                      const std::filesystem::path& folder) {
  const std::vector<Setting> then = settings_of(before), wanted = settings_of(now);
  std::string differing;
  for (std::size_t i = 0; i < then.size(); ++i) {
    if (then[i].value == wanted[i].value) continue;
    differing +=
        fmt::format("{}{}: it has \"{}\", now asked for is \"{}\"", differing.empty() ? "" : "; ",
                    then[i].option, then[i].value, wanted[i].value);
  }
  if (differing.empty()) return;
  throw Error("KV2203",
              fmt::format("{} holds a run with other options: {}", folder.string(), differing),
              "resume with the options of that run, or choose a new folder");
}

}  // namespace kvconform
