// What a run is asked for: checking it before anything runs, and the words for sizes.
#include <fmt/format.h>

#include <filesystem>

#include "properties/case_judge.h"
#include "properties/finite_weights.h"
#include "properties/reports/plain_text.h"
#include "properties/runner.h"
#include "properties/subject_registry.h"
#include "reference/counted.h"
#include "reference/error.h"

namespace kvconform {
namespace {

[[noreturn]] void wrong(const std::string& what, const std::string& remedy) {
  throw Error("KV2302", what, remedy);
}

void check_numbers(const RunOptions& options) {
  if (options.shards < 1 || options.shard < 1 || options.shard > options.shards) {
    wrong(fmt::format("shard {} of {} does not exist", options.shard, options.shards),
          "give I/N with 1 ≤ I ≤ N");
  }
  if (options.cases < 0) wrong(counted(options.cases, "case"), "give at least 1");
  if (!(options.seconds >= 0))
    wrong(fmt::format("{} seconds", options.seconds), "give more than 0");
  if (!(options.timeout > 0))
    wrong(fmt::format("a timeout of {} seconds", options.timeout), "give more than 0");
  if (options.jobs < 0) wrong(counted(options.jobs, "job"), "give at least 1");
}

/// Every logit of such a model is NaN for every implementation: nothing could be judged.
void check_model(const std::filesystem::path& folder) {
  if (!is_utf8(folder.string())) {  // a case file names it, and is JSON
    wrong(fmt::format("the path of the model \"{}\" is not UTF-8", plain_text(folder.string())),
          "rename the folder, or give a link to it");
  }
  const auto checkpoint = Checkpoint::open(folder);
  if (const auto place = find_non_finite(*checkpoint)) {
    throw Error("KV2303",
                fmt::format("the checkpoint {} itself holds {}", folder.string(), place->text()),
                "give a checkpoint with finite weights; only projections of consumers, which no "
                "layer reads, may be NaN");
  }
}

/// A program that is held against is asked for hello even where no property will need it.
void check_against(const RunOptions& options) {
  const auto against = make_subject(options.against, {options.timeout, options.stop});
  try {
    against->info();
  } catch (const SubjectBroken& e) {
    throw Error("KV2105",
                fmt::format("{}, which the subjects are to be held against, cannot be used: {}",
                            options.against, e.what()),
                "check that the command starts a program that speaks the subject protocol");
  } catch (const SubjectInterrupted&) {
    // The run ends before its first case, with a report that says so.
  }
}

}  // namespace

void require_valid(const RunOptions& options) {
  if (options.subjects.empty()) wrong("no subject was named", "name at least one, e.g. reference");
  check_numbers(options);
  for (const std::string& name : options.properties) find_property(name);
  for (const std::string& subject : options.subjects) make_subject(subject);
  check_against(options);
  for (const auto& model : options.models) check_model(model);
}

std::int64_t default_cases(CaseSize size) {
  switch (size) {
    case CaseSize::smoke:
      return 50;
    case CaseSize::standard:
      return 200;
    case CaseSize::emulated:
      return 20;
    case CaseSize::deep:
      return 5000;
  }
  return 200;
}

const char* to_string(CaseSize size) {
  return size == CaseSize::smoke ? "smoke" : size == CaseSize::standard ? "default" : "deep";
}

std::optional<CaseSize> case_size(const std::string& name) {
  for (CaseSize size : {CaseSize::smoke, CaseSize::standard, CaseSize::deep}) {
    if (name == to_string(size)) return size;
  }
  return std::nullopt;
}

}  // namespace kvconform
