// The matrix of faults × properties as files: faults.md for people, faults.json for programs.
#pragma once

#include <filesystem>
#include <string>

#include "properties/faults/fault_matrix.h"

namespace kvconform {

std::string matrix_markdown(const std::vector<FaultResult>& results, const MatrixOptions& options);
std::string matrix_json(const std::vector<FaultResult>& results, const MatrixOptions& options);

/// Makes the folder ready: new or empty, else Error KV2201.
void open_matrix_report(const std::filesystem::path& folder);

/// Writes both files. HarnessError KV2210 where that fails.
void write_matrix_report(const std::vector<FaultResult>& results, const MatrixOptions& options,
                         const std::filesystem::path& folder);

/// One line: who caught it, after how many cases, in how small a case, pinned or not.
std::string totals_text(const std::vector<FaultResult>& results, const MatrixOptions& options);
std::string catch_text(const FaultResult& result);

}  // namespace kvconform
