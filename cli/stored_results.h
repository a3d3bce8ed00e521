// The checks of `check` that run no generated case: oracle data made by other software, and the
// approved goldens. Each becomes one line of the table and of results.jsonl, and a failure that the
// ledger lists is known there as elsewhere.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "properties/runner.h"

namespace kvconform::cli {

struct StoredCheck {
  std::string name, sentence;
  /// Given the entries of the ledger about it.
  std::function<PropertyResult(std::vector<ListedFailure>)> verify;
};

const std::vector<StoredCheck>& stored_checks();

}  // namespace kvconform::cli
