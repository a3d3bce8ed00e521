// The checks of `check` that run no generated case: oracle data made by other software, and the
// approved goldens. Each becomes one line of the table and of results.jsonl for each subject that
// it is about, and a failure that the ledger lists is known there as elsewhere.
#pragma once

#include <string>
#include <vector>

#include "properties/runner.h"

namespace kvconform::cli {

struct StoredCheck {
  std::string name, sentence;
  std::string subjects;  ///< that it is about, for people
  bool (*takes)(const std::string& subject);
  void (*compare)(const std::string& subject, PropertyResult& result);

  /// Given the entries of the ledger about it.
  PropertyResult verify(const std::string& subject, std::vector<ListedFailure> listed) const;
};

const std::vector<StoredCheck>& stored_checks();

}  // namespace kvconform::cli
