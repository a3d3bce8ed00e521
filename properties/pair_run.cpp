// Threads that take cases, judge them and keep records by index.
#include "properties/pair_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "properties/requirements.h"
#include "properties/shrinking.h"
#include "properties/subject_registry.h"

namespace kvconform {
namespace {

using Clock = std::chrono::steady_clock;

double elapsed_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

CaseFolder::CaseFolder(const std::filesystem::path& report) {
  if (report.empty()) {
    temporary_.emplace("kvconform-run");
    folder_ = temporary_->path();
  } else {
    folder_ = report / "running";
    std::filesystem::create_directories(folder_);
  }
}

CaseFolder::~CaseFolder() {
  std::error_code ignored;
  if (!temporary_) std::filesystem::remove_all(folder_, ignored);
}

std::filesystem::path CaseFolder::running(int worker) const {
  return folder_ / fmt::format("running-{}.json", worker);
}

SubjectOptions subject_options(const RunOptions& options) {
  return {options.timeout, options.stop};
}

int jobs_of(const RunOptions& options) {
  if (options.jobs > 0) return options.jobs;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

CaseJudge& judge_of(Judges& judges, int worker, const RunOptions& options,
                    const std::string& subject) {
  auto& judge = judges[static_cast<std::size_t>(worker)];
  if (!judge) {
    judge = std::make_unique<CaseJudge>(subject, options.against, subject_options(options));
  }
  return *judge;
}

Case generate_case(const RunOptions& options, const Property& property, std::int64_t index,
                   CaseSize size) {
  const auto i = static_cast<std::uint64_t>(index);
  if (options.models.empty()) return property.generate(options.seed, i, size);
  ModelSpec spec;
  spec.folder = options.models[i % options.models.size()];
  return property.generate_for(spec, options.seed, i, size);
}

PairRun::PairRun(const RunOptions& options, const Property& property, const std::string& subject,
                 const Limits& limits, const CaseFolder& folder, Judges& judges,
                 std::function<void(Progress)> report)
    : options_(options),
      property_(property),
      subject_(subject),
      listed_(listed_for(options.known, property.name(), subject)),
      limits_(limits),
      folder_(folder),
      judges_(judges),
      report_(std::move(report)) {}

void PairRun::run() {
  begin_ = Clock::now();
  next_ = options_.shard - 1;
  std::vector<std::thread> workers;
  for (int worker = 1; worker < limits_.jobs; ++worker) {
    workers.emplace_back([this, worker] { work_safely(worker); });
  }
  work_safely(0);
  for (std::thread& worker : workers) worker.join();
  if (error_) std::rethrow_exception(error_);
  std::sort(records_.begin(), records_.end(),
            [](const Record& a, const Record& b) { return a.index < b.index; });
  forget_after_first_failure();
}

double PairRun::seconds() const {
  return elapsed_since(begin_);
}

void PairRun::work_safely(int worker) {
  try {
    work(worker);
  } catch (const SubjectInterrupted&) {
    abandoned_ = true;  // the run is being stopped: the case under way has no verdict
  } catch (const SubjectUnusable& e) {
    const std::lock_guard lock(mutex_);
    unusable_ = e.what();
    abandoned_ = true;
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
    abandoned_ = true;
  }
}

CaseSize PairRun::size_for(const SubjectInfo& info) const {
  const bool smaller = info.emulated && options_.size == CaseSize::standard;
  return smaller ? CaseSize::emulated : options_.size;
}

void PairRun::work(int worker) {
  CaseJudge& judge = judge_of(judges_, worker, options_, subject_);
  std::int64_t last = -1;
  for (std::int64_t index; (index = take()) >= 0;) {
    const CaseSize size = size_for(judge.info());
    Case test_case = generate_case(options_, property_, index, size);
    test_case.subject = subject_;
    test_case.against = options_.against;
    write_case(test_case, folder_.running(worker));
    Record record;
    record.index = index;
    record.size = size;
    record.verdict = judge.judge(property_, test_case, /*traces=*/false);
    record.against_used = judge.against_used();
    const ModelConfig config = config_of(test_case.model);
    record.classes = coverage_classes(test_case, config);
    record.buckets = buckets_of(test_case, config);
    look_up(judge, test_case, record);
    add(std::move(record), worker == 0);
    last = index;
  }
  if (last >= 0) wait_for_late_words(judge, last);
}

/// Nobody asks anything more for now: what a process says later belongs to its last case.
void PairRun::wait_for_late_words(CaseJudge& judge, std::int64_t last) {
  Verdict late;
  judge.end_case(std::chrono::milliseconds(100), late);
  if (!is_failure(late.kind)) return;
  const std::lock_guard lock(mutex_);
  const auto record = std::find_if(records_.begin(), records_.end(),
                                   [last](const Record& r) { return r.index == last; });
  if (record == records_.end() || !is_worse(late.kind, record->verdict.kind)) return;
  record->verdict = late;
  record->listed = -1;
}

/// A failure that the ledger lists is known. An entry may ask where: the case runs once more.
void PairRun::look_up(CaseJudge& judge, const Case& test_case, Record& record) const {
  if (listed_.empty() || !is_failure(record.verdict.kind)) return;
  Verdict located = record.verdict;
  if (asks_for_place(listed_)) located = judge.judge(property_, test_case, /*traces=*/true);
  if (located.kind != record.verdict.kind) return;  // flaky: that is never known
  record.listed = find_listed(listed_, located);
  if (record.listed >= 0) record.verdict.kind = VerdictKind::known;
}

std::int64_t PairRun::take() {
  if (stopped() || abandoned_ || (limits_.seconds > 0 && seconds() >= limits_.seconds)) return -1;
  const std::lock_guard lock(mutex_);
  if (limits_.cases > 0 && next_ >= limits_.cases) return -1;
  if (options_.stop_at_first_failure && next_ > first_failure_) return -1;
  const std::int64_t index = next_;
  next_ += options_.shards;
  return index;
}

void PairRun::add(Record record, bool reports) {
  Progress progress;
  {
    const std::lock_guard lock(mutex_);
    if (is_failure(record.verdict.kind)) {
      first_failure_ = std::min(first_failure_, record.index);
      ++failures_;
    }
    records_.push_back(std::move(record));
    progress.done = static_cast<std::int64_t>(records_.size());
    progress.failures = failures_;
  }
  if (!reports || elapsed_since(reported_) < 0.2) return;
  reported_ = Clock::now();
  progress.planned = limits_.cases / options_.shards;
  report_(progress);
}

/// Other workers may have gone on past the first failure: their records would depend on the jobs.
void PairRun::forget_after_first_failure() {
  if (!options_.stop_at_first_failure) return;
  std::erase_if(records_, [this](const Record& r) { return r.index > first_failure_; });
}

}  // namespace kvconform
