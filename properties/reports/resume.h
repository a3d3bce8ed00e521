// Going on with an interrupted run: only under the options it was begun with. Results of two
// different runs in one report would say what no run has seen.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "properties/runner.h"

namespace kvconform {

/// What a run was asked for, as an option and its value each: everything that decides what is run
/// and how it is judged. The number of jobs does not.
struct Setting {
  const char* option;
  std::string value;
};
std::vector<Setting> settings_of(const RunSummary& run);

/// Throws Error KV2203 naming the options that differ, each with both values.
void require_same_run(const RunSummary& before, const RunSummary& now,
                      const std::filesystem::path& folder);

}  // namespace kvconform
