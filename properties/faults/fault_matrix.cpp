// Threads that take faults, and for each fault its properties one after the other.
#include "properties/faults/fault_matrix.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "properties/case_judge.h"
#include "properties/failure_study.h"
#include "properties/shrinking.h"
#include "properties/subjects/kernel_trial.h"

namespace kvconform {
namespace {

using Clock = std::chrono::steady_clock;

/// The property that is meant to catch the fault, if this build has it, then the others.
std::vector<const Property*> in_order(const Fault& fault) {
  std::vector<const Property*> order;
  for (const auto& property : all_properties()) order.push_back(property.get());
  std::stable_partition(order.begin(), order.end(),
                        [&](const Property* p) { return fault.caught_by == p->name(); });
  return order;
}

bool stopped(const MatrixOptions& options) {
  return options.stop != nullptr && options.stop->load();
}

/// Cases for a pair: many for the property that a fault is meant for, a share for the others, so
/// that a fault that nobody catches costs no more than 3,000 cases at default size.
std::int64_t limit(const MatrixOptions& options, bool expected) {
  if (options.cases > 0) return options.cases;
  const std::int64_t many = options.size == CaseSize::smoke      ? 300
                            : options.size == CaseSize::standard ? 1000
                                                                 : 3000;
  return expected && !options.whole ? many : many / 10;
}

/// Does the fault act there, in the case's model or in what the property made of it?
bool is_pinned(const Fault& fault, const Verdict& verdict, const ModelConfig& config) {
  if (!verdict.first_difference) return false;
  if (verdict.models.empty()) return is_at(fault.site, *verdict.first_difference, config);
  return std::any_of(verdict.models.begin(), verdict.models.end(), [&](const std::string& text) {
    const ModelConfig changed = parse_model_config(nlohmann::json::parse(text));
    return is_at(fault.site, *verdict.first_difference, changed);
  });
}

bool is_race(const Verdict& verdict) {
  return verdict.kind == VerdictKind::broken &&
         verdict.message.rfind(std::string(kRaceChecker) + ": ", 0) == 0;
}

Catch describe(const Property& property, const Fault& fault, const Case& found,
               const Verdict& verdict) {
  const ModelConfig config = config_of(found.model);
  const CaseExtent extent = extent_of(found);
  const bool slides =
      std::count(config.layer_types.begin(), config.layer_types.end(), AttentionType::sliding) > 0;
  Catch caught;
  caught.property = is_race(verdict) ? kRaceChecker : property.name();
  caught.asked = property.name();
  caught.kind = verdict.kind;
  caught.place = verdict.first_difference;
  caught.pinned = is_pinned(fault, verdict, config);
  caught.layers = extent.layers;
  caught.prompt = extent.prompt;
  caught.calls = extent.calls;
  caught.window = slides ? config.sliding_window : 0;
  caught.message = verdict.message;
  return caught;
}

/// The failing case again, with traces, and smaller where there is time for it.
Catch study(const MatrixOptions& options, const Property& property, const Fault& fault,
            CaseJudge& judge, const Case& failing, const Verdict& seen) {
  if (options.shrink_seconds > 0) {
    StudyLimits limits;
    limits.seconds = options.shrink_seconds;
    limits.stop = options.stop;
    const FailureStudy done = study_failure(property, failing, seen, limits);
    return describe(property, fault, done.smallest, done.verdict);
  }
  Verdict again = judge.judge(property, failing, /*traces=*/true);
  if (!is_failure(again.kind)) again.kind = VerdictKind::flaky;
  return describe(property, fault, failing, again);
}

std::optional<Catch> first_catch(const MatrixOptions& options, const Property& property,
                                 const Fault& fault, CaseJudge& judge, std::int64_t& cases) {
  // The race checker needs no certain property: the first one asked gives it all its cases.
  const bool expected = fault.caught_by == property.name() ||
                        (fault.caught_by == kRaceChecker && &property == in_order(fault).front());
  const std::int64_t most = limit(options, expected);
  // What the engine cuts into pieces only cases of that size cross.
  const CaseSize size = judge.info().emulated ? CaseSize::emulated : options.size;
  for (std::int64_t i = 0; i < most && !stopped(options); ++i) {
    Case test_case = property.generate(options.seed, std::uint64_t(i), size);
    test_case.subject = "fault:" + fault.name;
    test_case.against = "reference:double";
    const Verdict verdict = judge.judge(property, test_case, /*traces=*/false);
    ++cases;
    if (!is_failure(verdict.kind)) continue;
    Catch caught = study(options, property, fault, judge, test_case, verdict);
    caught.cases = i + 1;
    return caught;
  }
  return std::nullopt;
}

FaultResult run_fault(const MatrixOptions& options, const Fault& fault) {
  const auto begin = Clock::now();
  FaultResult result;
  result.fault = fault;
  CaseJudge judge("fault:" + fault.name, "reference:double");
  for (const Property* property : in_order(fault)) {
    if (stopped(options) || (result.caught() && !options.whole)) break;
    std::int64_t cases = 0;
    const auto caught = first_catch(options, *property, fault, judge, cases);
    if (!result.caught()) result.cases += cases;
    if (!caught) continue;
    result.catches.push_back(*caught);
    if (caught->property == kRaceChecker) break;  // it would say the same of any property's cases
  }
  result.judged = result.caught() || !stopped(options);
  result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return result;
}

/// Faults dealt out to threads, results told in the order of the faults.
class MatrixRun {
 public:
  explicit MatrixRun(const MatrixOptions& options)
      : options_(options), results_(options.faults.size()), done_(options.faults.size(), false) {}

  std::vector<FaultResult> run() {
    const int cores = int(std::thread::hardware_concurrency());
    const int jobs = options_.jobs > 0 ? options_.jobs : std::max(1, cores);
    std::vector<std::thread> workers;
    for (int i = 1; i < jobs; ++i) workers.emplace_back([this] { work(); });
    work();
    for (std::thread& worker : workers) worker.join();
    if (error_) std::rethrow_exception(error_);
    return std::move(results_);
  }

 private:
  void work() {
    try {
      for (std::size_t i; (i = next_++) < results_.size();) {
        FaultResult result = run_fault(options_, options_.faults[i]);
        const std::lock_guard lock(mutex_);
        results_[i] = std::move(result);
        done_[i] = true;
        tell();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      next_ = results_.size();
    }
  }

  void tell() {
    for (; told_ < results_.size() && done_[told_]; ++told_)
      if (options_.on_result) options_.on_result(results_[told_]);
  }

  const MatrixOptions& options_;
  std::vector<FaultResult> results_;
  std::vector<bool> done_;
  std::size_t told_ = 0;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::exception_ptr error_;
};

template <class Number>
Number median(std::vector<Number> numbers) {
  if (numbers.empty()) return 0;
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

}  // namespace

bool FaultResult::has_place() const {
  return caught() && !fault.site.part.empty() && catches[0].kind != VerdictKind::broken;
}

std::vector<FaultResult> run_fault_matrix(const MatrixOptions& options) {
  return MatrixRun(options).run();
}

MatrixTotals totals_of(const std::vector<FaultResult>& results) {
  MatrixTotals totals;
  std::vector<std::int64_t> cases;
  std::vector<int> layers, past_window;
  for (const FaultResult& result : results) {
    ++totals.faults;
    if (result.fault.deep) totals.deep.push_back(result.fault.name);
    if (!result.caught()) continue;
    const Catch& first = result.catches[0];
    ++totals.caught;
    totals.caught_as_expected += first.property == result.fault.caught_by;
    totals.races += first.property == kRaceChecker;
    totals.with_place += result.has_place();
    totals.pinned += result.has_place() && first.pinned;
    totals.most_cases = std::max(totals.most_cases, result.cases);
    cases.push_back(result.cases);
    layers.push_back(first.layers);
    past_window.push_back(first.prompt - first.window);
  }
  totals.median_cases = median(cases);
  totals.median_layers = median(layers);
  totals.median_prompt_past_window = median(past_window);
  return totals;
}

}  // namespace kvconform
