// Runs properties against subjects and keeps the books: which cases ran, what each verdict was, the
// smallest case of every failure, and whether enough hard cases were met.
//
// Case i of a property is a pure function of (seed, property, i); shard I of N takes the cases with
// i mod N = I − 1. Every case is judged, also after a failure, so that the verdicts depend neither
// on the number of jobs nor on that of shards. A failing case is run again (flaky?), shrunk, and
// run once more with traces.
//
//   RunOptions options;
//   options.subjects = {"reference", "fault:window-one-too-wide"};
//   options.on_result = [](const PropertyResult& r) { print(failure_text(r)); };
//   RunSummary summary = run_properties(options);
//   return exit_code(summary);
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "properties/case.h"
#include "properties/distribution.h"
#include "properties/kept_cases.h"
#include "properties/known_failures.h"
#include "properties/property.h"
#include "properties/verdict.h"

namespace kvconform {

using VerdictCounts = std::map<VerdictKind, std::int64_t>;

/// The smallest case found that a property fails on, and how.
struct Failure {
  Case smallest;
  Verdict verdict;             ///< of the smallest case, with the first difference where located
  std::filesystem::path file;  ///< where it can be replayed from
  std::uint64_t found_at = 0;  ///< index of the generated case it was shrunk from
  bool kept = false;           ///< a case kept from earlier, not a generated one
  /// An earlier property, found violated in the same run, that the smallest case breaks as well.
  std::string breaks_too = {};
};

/// Another way to fail than the one shown: `differs` beside `broken`.
struct OtherFailure {
  VerdictKind verdict = VerdictKind::differs;
  std::int64_t cases = 0;
  std::string message;         ///< of the first of them
  std::filesystem::path file;  ///< where that one can be replayed from, as it was found
};

/// Why cases were not compared, in the words of the subject or of the harness.
struct Reason {
  VerdictKind verdict = VerdictKind::refused;
  std::string text;
  std::int64_t cases = 0;
  std::string first = {};  ///< the request that it was said of, in the first case
};

/// One property on one subject: a line of results.jsonl.
struct PropertyResult {
  std::string property, sentence, subject, against;
  VerdictKind verdict = VerdictKind::conforms;  ///< the worst
  VerdictCounts counts;                         ///< of generated cases
  VerdictCounts kept;  ///< of cases kept from earlier failures: outside every count of a run
  std::int64_t cases = 0;
  std::uint64_t seed = 0;
  double budget_used = 0;
  double seconds = 0;
  bool against_used = false;  ///< some case was held against `against`, not against the subject
  std::string message;        ///< one line: of the failure, or why nothing was compared
  std::optional<Failure> failure;
  std::optional<OtherFailure> besides;
  std::vector<Reason> reasons;        ///< of refused and not applicable cases; the first few texts
  std::vector<ListedFailure> listed;  ///< entries of the ledger about this property and subject
  bool whole = true;                  ///< false: interrupted on the way; run again on resuming
};

/// A hard class of cases, e.g. "gemma4: window crossed": how many were met, how many must be.
struct Coverage {
  std::int64_t met = 0, required = 0;
};

/// What a subject said of itself, and which hard cases it met.
struct SubjectBooks {
  SubjectInfo info;
  std::map<std::string, Coverage> coverage;
};

struct Progress {
  std::string property, subject;
  std::int64_t done = 0;      ///< cases of this property and subject
  std::int64_t planned = 0;   ///< 0: as many as the time allows
  std::int64_t failures = 0;  ///< cases of it that failed so far
  double seconds = 0;         ///< since the run began
  double seconds_left = -1;   ///< of the whole run, estimated; −1: not known
  int step = 0, steps = 0;    ///< which of the pairs property × subject
  bool shrinking = false;
};

struct RunOptions {
  std::vector<std::string> subjects = {"reference"};
  std::string against = "reference:double";
  std::vector<std::string> properties;  ///< names; empty: all
  bool generated = true;                ///< false: none of them, only what the caller adds
  std::vector<std::string> stored;      ///< names of what the caller adds, where chosen by name
  std::int64_t cases = 0;               ///< generated cases for each property; 0: what `size` says
  double seconds = 0;  ///< time of one subject, shared among its properties; 0: no limit
  std::uint64_t seed = 1;
  CaseSize size = CaseSize::standard;
  int jobs = 0;                               ///< threads; 0: as many as the machine has cores
  int shard = 1, shards = 1;                  ///< this is shard `shard` of `shards`
  std::filesystem::path report;               ///< folder; empty: none
  bool resume = false;                        ///< go on with an incomplete run in `report`
  std::vector<std::filesystem::path> models;  ///< checkpoints; empty: models are generated
  std::vector<KnownFailure> known;            ///< the ledger
  std::vector<KeptCase> kept;                 ///< run first; of several shards, in the first
  double shrink_seconds = 10;                 ///< for each property that fails
  bool stop_at_first_failure = false;         ///< of a property; without a report no case is
                                              ///< kept (the fault matrix needs no more)
  std::string commit;                         ///< of the build, for the report; empty: not known

  double timeout = 30;  ///< seconds for one request to a subject in another process

  std::function<void(const Progress&)> on_progress;  ///< called a few times a second, one thread
  std::function<void(const PropertyResult&)> on_result;
  const std::atomic<bool>* stop = nullptr;  ///< set by Ctrl-C: finish the case, mark incomplete
};

/// What a run was asked to do: going on with it under other options would mix two runs.
struct Asked {
  std::vector<std::string> subjects;
  std::string against;
  std::vector<std::string> properties;  ///< empty: all
  std::vector<std::string> models;      ///< absolute paths
  double seconds = 0, timeout = 0;
  std::vector<KnownFailure> known = {};  ///< the ledger
};

struct RunSummary {
  std::string commit;
  Asked asked;
  std::uint64_t seed = 0;
  CaseSize size = CaseSize::standard;
  int shard = 1, shards = 1;
  std::int64_t cases_per_property = 0;  ///< asked for; 0: by time
  bool complete = false;
  bool interrupted = false;
  std::optional<int> ended_with;  ///< exit code of the error that ended the run: 2 or 5
  double seconds = 0;
  std::int64_t cases = 0;  ///< generated cases that were judged
  VerdictCounts counts;
  std::vector<PropertyResult> results;
  std::map<std::string, Coverage> coverage;      ///< over all subjects
  std::map<std::string, SubjectBooks> subjects;  ///< those that could be asked
  Distribution distribution;                     ///< of the generated cases
  std::vector<std::string> merged;               ///< folders of the reports this one joins
  /// False for a shard (`report merge` judges), chosen properties or given models: the minimum of
  /// hard cases is that of a whole check.
  bool coverage_judged = false;
  std::map<std::string, std::string> environment;
};

/// Throws Error (unknown subject KV2101, `against` that does not answer KV2105, property KV2301,
/// option KV2302, report folder KV22xx, model that cannot be read or holds NaN KV2303) before
/// anything runs, HarnessError if the report cannot be written. With
/// `options.report` the report is written as the run goes.
RunSummary run_properties(const RunOptions& options);

/// The first half of that: throws what run_properties throws before anything runs, the report
/// folder apart.
void require_valid(const RunOptions& options);

/// Exit code of a run by the order of cli.md: 4 a subject broke, 1 a property was violated, 3
/// nothing or too little was compared, 0; an interrupted run: 130. (2 and 5 are
/// exceptions, which the summary carries in `ended_with`.)
int exit_code(const RunSummary& summary);

/// Cases a property gets when nothing is said.
std::int64_t default_cases(CaseSize size);

const char* to_string(CaseSize size);                        ///< smoke, default, deep
std::optional<CaseSize> case_size(const std::string& name);  ///< nothing for other words

}  // namespace kvconform
