// Judging what a run has written down, once all of it is there: the required minimum of hard cases,
// and entries of the ledger that nothing fitted. A run does it for itself, `report merge` for all
// shards together.
#pragma once

#include "properties/runner.h"

namespace kvconform {

/// Cases in which the subject was held against something.
std::int64_t compared_of(const VerdictCounts& counts);

/// Counts why cases were not compared. Beyond the first few texts, they are "other reasons".
void note_reason(const Reason& reason, PropertyResult& result);

/// The reasons in one line: "3 refused: no bias (2), no soft cap (1); 5 not-applicable: …".
std::string reasons_text(const PropertyResult& result);

/// Cases of generated properties that were compared on one subject.
std::int64_t compared_on(const RunSummary& summary, const std::string& subject);

/// How often a hard class must be met among that many compared cases, one in `one_in` of which
/// belong to it: a share of them, and no more than luck alone misses once in a million runs.
std::int64_t required_among(std::int64_t compared, int one_in);

/// Fills what is required of each subject, and the totals over all of them; nothing is required of
/// runs that are incomplete or not judged (`coverage_judged`).
void judge_coverage(RunSummary& summary);

/// Hard classes that a subject met less often than required.
std::map<std::string, Coverage> missing_classes(const SubjectBooks& books);

/// The words for a known failure, and the verdict `unexpectedly-conforms` where an entry fitted no
/// case although cases were compared. Only for results of all cases, not of a shard.
void judge_listed(PropertyResult& result);

}  // namespace kvconform
