// Checking that reports belong together, and adding them up.
#include "properties/reports/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "properties/books.h"
#include "properties/case_judge.h"
#include "properties/reports/report.h"
#include "properties/reports/resume.h"
#include "reference/error.h"

namespace kvconform {
namespace {

namespace fs = std::filesystem;

struct Part {
  fs::path folder;
  RunSummary run;
};

bool may_differ(const std::string& option) {
  return option == "--subject" || option == "--shard";
}

void require_same_options(const Part& first, const Part& other) {
  const std::vector<Setting> one = settings_of(first.run), two = settings_of(other.run);
  for (std::size_t i = 0; i < one.size(); ++i) {
    if (may_differ(one[i].option) || one[i].value == two[i].value) continue;
    throw Error("KV2221",
                fmt::format("{} and {} are not parts of one run: {} is \"{}\" in the first and "
                            "\"{}\" in the second",
                            first.folder.string(), other.folder.string(), one[i].option,
                            one[i].value, two[i].value),
                "merge reports of the same options, seed, size and commit");
  }
}

/// Who holds which shard of a subject.
struct Shards {
  int count = 0;
  std::map<int, fs::path> holders;
};

void take_shard(const std::string& subject, const Part& part, Shards& shards) {
  if (shards.count == 0) shards.count = part.run.shards;
  if (shards.count != part.run.shards)
    throw Error("KV2222",
                fmt::format("{} holds shard {}/{} of {}, and {} a shard of {}: they overlap",
                            part.folder.string(), part.run.shard, part.run.shards, subject,
                            shards.holders.begin()->second.string(), shards.count),
                "merge the shards of one division");
  const auto [held, is_new] = shards.holders.emplace(part.run.shard, part.folder);
  if (!is_new)
    throw Error("KV2222",
                fmt::format("{} and {} both hold shard {}/{} of {}", held->second.string(),
                            part.folder.string(), part.run.shard, part.run.shards, subject),
                "name each part once");
}

void require_whole(const std::vector<Part>& parts) {
  std::map<std::string, Shards> subjects;
  for (const Part& part : parts) {
    for (const std::string& subject : part.run.asked.subjects)
      take_shard(subject, part, subjects[subject]);
  }
  for (const auto& [subject, shards] : subjects) {
    for (int shard = 1; shard <= shards.count; ++shard) {
      if (shards.holders.count(shard)) continue;
      throw Error("KV2223",
                  fmt::format("shard {}/{} of {} is missing (others: {}, …)", shard, shards.count,
                              subject, shards.holders.begin()->second.string()),
                  "run it with the options of the others, and name its report too");
    }
  }
}

/// The failure that a run over all cases would have told of: the worst, of a kept case, else of the
/// generated case with the smallest index.
bool comes_first(const Failure& a, const Failure& b) {
  if (a.verdict.kind != b.verdict.kind) return is_worse(a.verdict.kind, b.verdict.kind);
  if (a.kept != b.kept) return a.kept;
  return a.found_at < b.found_at;
}

void join_listed(const PropertyResult& more, PropertyResult& result) {
  for (const ListedFailure& listed : more.listed) {
    const auto same = std::find_if(result.listed.begin(), result.listed.end(),
                                   [&](const auto& l) { return l.entry == listed.entry; });
    if (same == result.listed.end())
      result.listed.push_back(listed);
    else
      same->matched += listed.matched;
  }
}

void join(const PropertyResult& more, PropertyResult& result) {
  const bool worse = is_worse(more.verdict, result.verdict);
  const bool earlier =
      more.failure && (!result.failure || comes_first(*more.failure, *result.failure));
  if (worse || (more.verdict == result.verdict && earlier)) result.message = more.message;
  if (worse) result.verdict = more.verdict;
  if (earlier) result.failure = more.failure;
  for (const auto& [kind, number] : more.counts) result.counts[kind] += number;
  for (const auto& [kind, number] : more.kept) result.kept[kind] += number;
  result.cases += more.cases;
  result.budget_used = std::max(result.budget_used, more.budget_used);
  result.seconds += more.seconds;
  result.against_used |= more.against_used;
  result.whole &= more.whole;
  for (const Reason& reason : more.reasons) note_reason(reason, result);
  if (more.besides && !result.besides)
    result.besides = more.besides;
  else if (more.besides)
    result.besides->cases += more.besides->cases;
  join_listed(more, result);
}

PropertyResult& result_for(RunSummary& all, const PropertyResult& like) {
  for (PropertyResult& result : all.results) {
    if (result.property == like.property && result.subject == like.subject) return result;
  }
  PropertyResult& result = all.results.emplace_back();
  result.property = like.property;
  result.sentence = like.sentence;
  result.subject = like.subject;
  result.against = like.against;
  result.seed = like.seed;
  result.verdict = VerdictKind::nothing_compared;
  result.message = like.message;
  return result;
}

void join_subjects(const RunSummary& more, RunSummary& all) {
  for (const std::string& subject : more.asked.subjects) {
    auto& subjects = all.asked.subjects;
    if (std::find(subjects.begin(), subjects.end(), subject) == subjects.end())
      subjects.push_back(subject);
  }
  for (const auto& [name, books] : more.subjects) {
    SubjectBooks& own = all.subjects[name];
    own.info = books.info;
    for (const auto& [hard_class, entry] : books.coverage)
      own.coverage[hard_class].met += entry.met;
  }
}

/// Parts may have run on different machines.
void join_environment(const RunSummary& more, RunSummary& all) {
  for (const auto& [name, value] : more.environment) {
    std::string& known = all.environment[name];
    if (known.empty())
      known = value;
    else if (known.find(value) == std::string::npos)
      known += " | " + value;
  }
}

void join(const Part& part, RunSummary& all) {
  const RunSummary& run = part.run;
  all.merged.push_back(part.folder.string());
  all.complete &= run.complete;
  all.interrupted |= run.interrupted;
  // 2 before 5, as everywhere.
  if (run.ended_with) all.ended_with = std::min(all.ended_with.value_or(5), *run.ended_with);
  all.seconds += run.seconds;
  all.cases += run.cases;
  for (const auto& [kind, number] : run.counts) all.counts[kind] += number;
  add(run.distribution, all.distribution);
  join_subjects(run, all);
  join_environment(run, all);
  for (const PropertyResult& result : run.results) join(result, result_for(all, result));
}

std::vector<Part> read_parts(const std::vector<fs::path>& folders) {
  std::vector<Part> parts;
  for (const fs::path& folder : folders) parts.push_back({folder, read_report(folder)});
  for (const Part& part : parts) require_same_options(parts.front(), part);
  require_whole(parts);
  // The order in which folders are named says nothing.
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.run.shard < b.run.shard; });
  return parts;
}

fs::path free_name(const fs::path& folder, const fs::path& file) {
  fs::path name = folder / file.filename();
  for (int i = 2; fs::exists(name); ++i)
    name = folder / fmt::format("{}-{}.json", file.stem().string(), i);
  return name;
}

}  // namespace

RunSummary merge_reports(const std::vector<fs::path>& folders) {
  const std::vector<Part> parts = read_parts(folders);
  const RunSummary& first = parts.front().run;
  RunSummary all;
  all.commit = first.commit;
  all.seed = first.seed;
  all.size = first.size;
  all.cases_per_property = first.cases_per_property;
  all.asked = first.asked;
  all.asked.subjects.clear();
  all.complete = true;
  for (const Part& part : parts) join(part, all);
  all.coverage_judged = all.asked.properties.empty() && all.asked.models.empty();
  judge_coverage(all);
  if (all.complete) {
    for (PropertyResult& result : all.results) judge_listed(result);
  }
  return all;
}

void copy_failures(RunSummary& summary, const fs::path& report) {
  const auto copy = [&](fs::path& file) {
    if (file.empty()) return;
    std::error_code code;
    fs::create_directories(report / "failures", code);
    const fs::path to = free_name(report / "failures", file);
    fs::copy_file(file, to, code);
    if (code)
      throw HarnessError("KV2210", fmt::format("cannot write {}: {}", to.string(), code.message()),
                         "check that the disk has room and the folder is writable");
    file = to;
  };
  for (PropertyResult& result : summary.results) {
    if (result.failure) copy(result.failure->file);
    if (result.besides) copy(result.besides->file);
  }
}

}  // namespace kvconform
