// Joining reports: the shards of a run, runs of different subjects, or both. What comes out is what
// one run over everything would have said: the same counts, the required minimum judged over all
// cases, the ledger too. Nothing is run again.
#pragma once

#include <filesystem>
#include <vector>

#include "properties/runner.h"

namespace kvconform {

/// Throws Error KV2202 (no report), KV2221 (options differ; both folders and values named), KV2222
/// (two reports hold the same shard of a subject), KV2223 (a shard is missing).
RunSummary merge_reports(const std::vector<std::filesystem::path>& folders);

/// Copies the failing cases into `report`, which exists, and makes the results name the copies.
/// HarnessError KV2210.
void copy_failures(RunSummary& summary, const std::filesystem::path& report);

}  // namespace kvconform
