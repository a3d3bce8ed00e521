// The report folder of a run (cli.md, "Output"): results.jsonl, summary.json, junit.xml,
// summary.md, index.html and failures/*.json. results.jsonl grows as properties finish and the rest
// is rewritten each time, so that an interrupted run leaves a valid report marked incomplete.
// Errors: KV22xx.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "properties/runner.h"

namespace kvconform {

/// Makes the folder ready. Throws Error KV2201 if it is neither new nor empty and `resume` is not
/// set, KV2202 if resume is set and what lies there is no report.
void open_report(const std::filesystem::path& folder, bool resume);

/// The (possibly incomplete) run a report folder holds. Error KV2202 if there is none.
RunSummary read_report(const std::filesystem::path& folder);

/// Writes every file of the report; each is replaced as a whole. HarnessError KV2210: not writable.
void write_report(const RunSummary& summary, const std::filesystem::path& folder);

nlohmann::json result_json(const PropertyResult& result);  ///< a line of results.jsonl
nlohmann::json summary_json(const RunSummary& summary);
std::string junit_xml(const RunSummary& summary);
std::string summary_markdown(const RunSummary& summary);  ///< also for the GitHub step summary

std::string summary_html(const RunSummary& summary);  ///< one page that needs nothing else

/// A failure from top to bottom, for a terminal: the property as a sentence, the smallest case in
/// words, expected and seen, the first place where the computations part, the share of the budget,
/// the likely cause and the command that runs it again. Empty where the result is no failure.
std::string failure_text(const PropertyResult& result);

/// What runs the smallest case again; empty where no case was kept.
std::string replay_command(const PropertyResult& result);

/// A place in words: "layer 1, attention, call 2, row 0, token 5".
std::string describe_place(const Difference& at);

/// What it means that a failing case breaks an earlier property as well.
std::string describe_earlier(const std::string& property);

/// "expected 1.5, seen 2"; without the first where any finite number would have done.
std::string describe_values(const Difference& at);

/// How else the property failed, and the command that runs the first of those cases again.
std::string describe_others(const OtherFailure& others);

/// The case in words: model, prompt, calls (a few lines).
std::string describe_case(const Case& test_case);

}  // namespace kvconform
