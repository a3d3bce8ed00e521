// What a check prints once it has run: the table, what was not covered, and the last line.
#pragma once

#include <string>

#include "properties/runner.h"

namespace kvconform::cli {

/// One row for each property and subject.
std::string summary_table(const RunSummary& summary);

/// Which properties used `--against`, and that the others hold each subject against itself.
std::string held_against(const RunSummary& summary);

/// Where the failing cases of a run without a report lie; "" where none failed.
std::string kept_failures(const RunSummary& summary);

/// Hard classes that were met less often than required; "" where the minimum is reached or was not
/// asked for.
std::string missing_coverage(const RunSummary& summary);

/// Entries of the ledger about subjects that were not asked for, a line each: a misspelt name would
/// else be ignored in silence.
std::string unasked_known_failures(const RunSummary& summary);

/// "1200 cases in 31 s, 2322 cases a minute: conforms"
std::string last_line(const RunSummary& summary, int exit_code);

/// `check --list`: everything that --property takes, with its sentence.
std::string property_list();

/// In GitHub Actions: an annotation for each failure, and the Markdown for the step summary.
void announce_to_github(const RunSummary& summary);

}  // namespace kvconform::cli
