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

/// What a failing kept case is called when it is kept again: by where it first came from, however
/// often it was kept since ("kept-window-one-too-wide").
std::string kept_name(const std::filesystem::path& file);

/// "PROPERTY-SUBJECT-WHICH.json" of characters fit for every file system. Long parts are cut and
/// end in a hash of the whole, so that they stay different.
std::string failure_file_name(const std::string& property, const std::string& subject,
                              const std::string& which);

/// Appends those that are not there yet, whoever they were recorded for.
void add_kept(std::vector<KeptCase>& kept, const std::vector<KeptCase>& more);

}  // namespace kvconform
