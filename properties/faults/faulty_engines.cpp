// Engines that can do little: they score and keep no cache. Few properties can be asked of them, so
// that each of those few must catch on its own what is wrong.
#include <algorithm>

#include "properties/faults/faulty_reference.h"
#include "properties/faults/wrapped_subject.h"

namespace kvconform {
namespace {

class ScoringEngine : public WrappedSubject {
 public:
  explicit ScoringEngine(std::unique_ptr<Subject> inner)
      : WrappedSubject(std::move(inner)), info_(WrappedSubject::info()) {
    std::erase_if(info_.capabilities, [](const std::string& c) {
      return c != "score" && c != "trace" && c != "sharing_map";
    });
  }
  const SubjectInfo& info() const override { return info_; }

 private:
  SubjectInfo info_;
};

/// A model that is there already is loaded beside itself with another kernel.
class KernelOfLoad : public ScoringEngine {
 public:
  explicit KernelOfLoad(std::unique_ptr<Subject> inner)
      : ScoringEngine(std::move(inner)),
        other_(faulty_reference("another kernel", FaultKind::sums_differ_without_cache)) {}

  ModelId load(const ModelSource& source) override {
    const ModelId model = ScoringEngine::load(source);
    const Checkpoint* weights = checkpoint(model).get();
    if (std::count(loaded_.begin(), loaded_.end(), weights) == 0) {
      loaded_.push_back(weights);
      return model;
    }
    ScoringEngine::unload(model);
    return kOther - other_->load(source);
  }
  void unload(ModelId model) override {
    if (model <= kOther) return other_->unload(kOther - model);
    std::erase(loaded_, checkpoint(model).get());
    ScoringEngine::unload(model);
  }
  Output score(ModelId model, const TokenRows& tokens, bool trace) override {
    return model <= kOther ? other_->score(kOther - model, tokens, trace)
                           : ScoringEngine::score(model, tokens, trace);
  }

 private:
  static constexpr ModelId kOther = -1;  // models of the other kernel are numbered down from here
  std::unique_ptr<Subject> other_;
  std::vector<const Checkpoint*> loaded_;
};

}  // namespace

std::unique_ptr<Subject> scores_only(std::unique_ptr<Subject> inner) {
  return std::make_unique<ScoringEngine>(std::move(inner));
}
std::unique_ptr<Subject> second_load_sums_otherwise(std::unique_ptr<Subject> inner) {
  return std::make_unique<KernelOfLoad>(std::move(inner));
}

}  // namespace kvconform
