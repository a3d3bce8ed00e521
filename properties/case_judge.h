// Judging single cases: a subject, what it is held against and a fresh yardstick for each case. One
// a thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "properties/noted_subject.h"
#include "properties/property.h"
#include "properties/subject.h"
#include "properties/subject_registry.h"
#include "properties/watched_subject.h"

namespace kvconform {

class CaseJudge {
 public:
  CaseJudge(const std::string& subject, const std::string& against,
            const SubjectOptions& options = {});

  /// Never throws for what the subject does on the case; SubjectUnusable and SubjectInterrupted end
  /// more than the case. Error where the case itself is invalid.
  Verdict judge(const Property& property, const Case& test_case, bool traces);

  const SubjectInfo& info() const { return subject_->info(); }

  /// Was the last case held against the other implementation, or against the subject itself?
  bool against_used() const { return against_.used(); }

  /// Turns what the subject did after its last answer into the verdict `broken`.
  void end_case(std::chrono::milliseconds patience, Verdict& verdict);

 private:
  std::shared_ptr<RequestLog> log_ = std::make_shared<RequestLog>();
  std::function<std::unique_ptr<Subject>()> make_another_;
  std::unique_ptr<Subject> subject_;
  WatchedSubject against_;
  std::unique_ptr<Subject> another_;  ///< of the same subject; kept once it was asked for
};

/// `broken`: what a subject that cannot be used at all is given.
Verdict unusable_verdict(const SubjectUnusable& e);

/// Error KV2301, listing the names there are.
const Property& find_property(const std::string& name);

/// Capabilities that a property needs and the subject lacks, in words; empty if none.
std::string unmet_needs(const Property& property, const SubjectInfo& info);

bool is_failure(VerdictKind kind);                  ///< makes a run exit with 1 or 4
bool was_compared(VerdictKind kind);                ///< the subject was held against something
bool is_worse(VerdictKind kind, VerdictKind than);  ///< for the worst verdict of many

}  // namespace kvconform
