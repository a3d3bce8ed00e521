// Going on with an interrupted run: only under the options it was begun with. Results of two
// different runs in one report would say what no run has seen.
#pragma once

#include <filesystem>

#include "properties/runner.h"

namespace kvconform {

/// Throws Error KV2203 naming the options that differ, each with both values.
void require_same_run(const RunSummary& before, const RunSummary& now,
                      const std::filesystem::path& folder);

}  // namespace kvconform
