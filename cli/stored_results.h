// The checks of `check` that run no generated case: oracle data made by other software, and the
// approved goldens. Each becomes one line of the table and of results.jsonl.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "properties/runner.h"

namespace kvconform::cli {

struct StoredCheck {
  std::string name, sentence;
  std::function<PropertyResult()> verify;
};

const std::vector<StoredCheck>& stored_checks();

}  // namespace kvconform::cli
