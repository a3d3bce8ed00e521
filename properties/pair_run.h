// One property on one subject: cases dealt out to a few threads, each with a judge of its own, and
// a record of every verdict. The records are in order of the cases and depend neither on the number
// of threads nor on that of shards.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "properties/case_judge.h"
#include "properties/runner.h"
#include "properties/temporary_folder.h"

namespace kvconform {

/// What is kept of one case.
struct Record {
  std::int64_t index = 0;
  CaseSize size = CaseSize::standard;  ///< that the case was drawn in
  Verdict verdict;
  std::set<std::string> classes;
  Buckets buckets;
  bool against_used = false;
  int listed = -1;  ///< the entry of the ledger that explains the failure
};

/// Where cases lie before they run: a file for each worker, overwritten.
class CaseFolder {
 public:
  explicit CaseFolder(const std::filesystem::path& report);
  ~CaseFolder();
  CaseFolder(const CaseFolder&) = delete;
  CaseFolder& operator=(const CaseFolder&) = delete;

  std::filesystem::path running(int worker) const;

 private:
  std::optional<TemporaryFolder> temporary_;
  std::filesystem::path folder_;
};

/// A judge for each worker, made by the worker that first needs it and kept for all properties of a
/// subject: starting a process may take longer than hundreds of cases.
using Judges = std::vector<std::unique_ptr<CaseJudge>>;

CaseJudge& judge_of(Judges& judges, int worker, const RunOptions& options,
                    const std::string& subject);

SubjectOptions subject_options(const RunOptions& options);
int jobs_of(const RunOptions& options);  ///< threads

/// Case `index` of a property: of a generated model, or of one of the given ones.
Case generate_case(const RunOptions& options, const Property& property, std::int64_t index,
                   CaseSize size);

class PairRun {
 public:
  struct Limits {
    std::int64_t cases = 0;  ///< of all shards; 0: until the time is over
    double seconds = 0;      ///< 0: none
    int jobs = 1;
  };

  PairRun(const RunOptions& options, const Property& property, const std::string& subject,
          const Limits& limits, const CaseFolder& folder, Judges& judges,
          std::function<void(Progress)> report);

  void run();

  const std::vector<Record>& records() const { return records_; }
  const std::string& unusable() const { return unusable_; }  ///< why the subject ends here
  bool stopped() const { return options_.stop != nullptr && options_.stop->load(); }
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;

  void work_safely(int worker);
  CaseSize size_for(const SubjectInfo& info) const;
  void work(int worker);
  std::int64_t take();  ///< the next index of this shard, or −1
  void look_up(CaseJudge& judge, const Case& test_case, Record& record) const;
  void add(Record record, bool reports);
  void wait_for_late_words(CaseJudge& judge, std::int64_t last);
  void forget_after_first_failure();

  const RunOptions& options_;
  const Property& property_;
  const std::string subject_;
  const std::vector<ListedFailure> listed_;
  const Limits limits_;
  const CaseFolder& folder_;
  Judges& judges_;
  std::function<void(Progress)> report_;
  Clock::time_point begin_, reported_;
  std::mutex mutex_;
  std::int64_t next_ = 0, failures_ = 0;
  std::int64_t first_failure_ = std::numeric_limits<std::int64_t>::max();
  std::vector<Record> records_;
  std::exception_ptr error_;
  std::string unusable_;
  std::atomic<bool> abandoned_ = false;
};

}  // namespace kvconform
