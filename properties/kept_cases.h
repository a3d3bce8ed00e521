// Cases that run first: those checked in (`regressions/`), and the failing ones of earlier runs.
// They run before the generated cases and outside their count, so that a run's counts stay a
// function of its seed; one that fails makes the run fail all the same.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "properties/case.h"

namespace kvconform {

struct KeptCase {
  Case test_case;
  std::filesystem::path file;
};

/// `regressions/` of the source tree, or KVCONFORM_REGRESSIONS_DIR. Error KV2006 if it is no
/// folder.
std::filesystem::path regressions_folder();

/// Every *.json of a folder, in order of their names. Error KV2006 (no folder), KV20xx (no case),
/// KV2301 (of a property that does not exist).
std::vector<KeptCase> read_kept_cases(const std::filesystem::path& folder);

/// The failing cases in the reports beside `report`. Whatever cannot be read any more is left out.
std::vector<KeptCase> failures_beside(const std::filesystem::path& report);

/// Appends those that are not there yet, whoever they were recorded for.
void add_kept(std::vector<KeptCase>& kept, const std::vector<KeptCase>& more);

}  // namespace kvconform
