// What a run says of one property on one subject: the cases counted, the worst failure made small
// and explained, the other ways to fail named. First the kept cases are judged, then the records of
// the generated ones are counted, then a failure is studied; each step asks nothing of a later one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "properties/failure_files.h"
#include "properties/failure_study.h"
#include "properties/pair_run.h"

namespace kvconform {

class PairResult {
 public:
  PairResult(const RunOptions& options, const Property& property, const std::string& subject,
             FailureFiles& files);

  /// Runs the cases kept for the property. SubjectUnusable and SubjectInterrupted as the judge
  /// throws them.
  void judge_kept(CaseJudge& judge, const std::filesystem::path& running);

  void count(const std::vector<Record>& records);

  /// Makes the worst failure small, if there is one; `before_shrinking` is called where that takes
  /// time.
  void study(const std::vector<Record>& records, const std::function<void()>& before_shrinking);

  /// Looks for what earlier properties, violated in this run, say of the failure studied.
  void look_earlier(CaseJudge& judge, const std::vector<const Property*>& violated);

  /// The subject cannot be used at all.
  void give_up(const std::string& why);
  void not_applicable(const std::string& why);

  PropertyResult& result() { return result_; }

 private:
  struct KeptFailure {
    const KeptCase* kept;
    Verdict verdict;
  };

  bool fits(const Case& test_case) const;
  Case asked_of_subject(Case test_case) const;
  Case drawn(const Record& record) const;
  Verdict judge_kept_case(CaseJudge& judge, const Case& test_case);
  const Record* study_steadily(const Record& failure, const std::vector<Record>& records);
  void study_record(const Record& record);
  void study_kept();
  void name_others(const std::vector<Record>& records, VerdictKind shown);
  FailureStudy studied(const Case& test_case, const Verdict& seen, double seconds) const;
  void save(FailureStudy study, const std::string& which, std::uint64_t found_at, bool kept);

  const RunOptions& options_;
  const Property& property_;
  FailureFiles& files_;
  PropertyResult result_;
  std::optional<KeptFailure> kept_;  ///< the first of those that fail worst
};

}  // namespace kvconform
