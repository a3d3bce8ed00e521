// What a cache says it holds is what the sharing plan allows: one length a row, none for consumers,
// which name their owner; a full layer holds the rows' lengths; a sliding one enough for the next
// query and at most window, margin and the longest chunk; memory is reserved for no more than that.
//
// Source: subject-protocol.md (`cache`); mlx-lm #260 (caches for layers that never write),
// tpu-inference #3299 (memory for dead projections), vLLM #43185. Needs: cache, cache_report.
#include <fmt/format.h>

#include <algorithm>

#include "properties/equivalence.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"
#include "reference/counted.h"
#include "reference/layer_plan.h"

namespace kvconform {
namespace {

/// What the calls of a case make of one session.
struct Extent {
  std::vector<int> lengths;
  int capacity = 0;
  int longest_chunk = 0;  ///< that any of its rows was ever given
};

class Extents {
 public:
  void apply(const Call& call) {
    Extent& at = open_[call.session];
    switch (call.kind) {
      case Call::Kind::open:
        at = {std::vector<int>(call.batch, 0), call.capacity, 0};
        break;
      case Call::Kind::extend:
        for (std::size_t r = 0; r < call.tokens.size(); ++r) {
          const int count = static_cast<int>(call.tokens[r].size());
          at.lengths[r] += count;
          at.longest_chunk = std::max(at.longest_chunk, count);
        }
        break;
      case Call::Kind::rewind:
        at.lengths = call.numbers;
        break;
      case Call::Kind::reorder:
        at.lengths = reordered(at.lengths, call.numbers);
        break;
      case Call::Kind::fork:
        at = open_[call.from];
        break;
      case Call::Kind::save:
        saved_[call.session] = at;
        break;
      case Call::Kind::restore:
        at = saved_[call.from];
        break;
      case Call::Kind::close:
        open_.erase(call.session);
        break;
      case Call::Kind::score:
        break;
    }
  }

  const std::map<int, Extent>& open() const { return open_; }

 private:
  static std::vector<int> reordered(const std::vector<int>& lengths,
                                    const std::vector<int>& sources) {
    std::vector<int> result;
    for (int source : sources) result.push_back(lengths[source]);
    return result;
  }

  std::map<int, Extent> open_, saved_;
};

/// Holds one report to the plan; the first thing that is wrong, in words.
class Audit {
 public:
  Audit(const std::vector<LayerPlan>& plan, const SubjectInfo& info, const Extent& extent)
      : plan_(plan), info_(info), extent_(extent) {}

  std::string complaint(const CacheReport& report, int& layer) const {
    if (report.lengths != extent_.lengths) {
      return fmt::format("the rows are said to hold [{}] tokens, not [{}]", joined(report.lengths),
                         joined(extent_.lengths));
    }
    if (report.layers.size() != plan_.size()) {
      return fmt::format("{} {} reported, not {}", counted(report.layers.size(), "layer"),
                         agreeing(report.layers.size(), "is", "are"), plan_.size());
    }
    for (std::size_t i = 0; i < plan_.size(); ++i) {
      layer = static_cast<int>(i);
      const std::string wrong = of_layer(report.layers[i], plan_[i]);
      if (!wrong.empty()) return fmt::format("layer {} {}", i, wrong);
    }
    return "";
  }

 private:
  static std::string joined(const std::vector<int>& numbers) {
    std::string text;
    for (int n : numbers) text += (text.empty() ? "" : ", ") + std::to_string(n);
    return text;
  }

  std::string of_layer(const CacheReport::Layer& seen, const LayerPlan& plan) const {
    if (seen.layer != plan.layer) return fmt::format("is reported as layer {}", seen.layer);
    if (seen.role != to_string(plan.role)) {
      return fmt::format("is said to be {}, it is {}", seen.role, to_string(plan.role));
    }
    if (seen.owner != plan.owner) {
      return fmt::format("names layer {} as owner of its keys, not {}", seen.owner, plan.owner);
    }
    if (!plan.owns_keys()) {
      if (seen.positions == 0 && seen.bytes == 0) return "";
      return fmt::format("reads the keys of layer {} and yet holds {}, {}", plan.owner,
                         counted(seen.positions, "position"), counted(seen.bytes, "byte"));
    }
    const std::string wrong = positions(seen.positions, plan);
    return wrong.empty() ? bytes(seen, plan) : wrong;
  }

  std::string positions(std::int64_t seen, const LayerPlan& plan) const {
    std::int64_t least = 0, most = 0;
    for (int length : extent_.lengths) {
      least += plan.window == 0 ? length : std::min(length, plan.window - 1);
      most += plan.window == 0 ? length : std::min(length, kept(plan));
    }
    if (seen >= least && seen <= most) return "";
    return fmt::format("holds {}, {}", counted(seen, "key position"),
                       seen < least ? fmt::format("the next queries see {}", least)
                                    : fmt::format("its limit is {}", most));
  }

  /// What a sliding layer may hold for a row.
  int kept(const LayerPlan& plan) const {
    return plan.window + info_.margin + extent_.longest_chunk;
  }

  std::string bytes(const CacheReport::Layer& seen, const LayerPlan& plan) const {
    const int needed = plan.window == 0 ? extent_.capacity : std::min(extent_.capacity, kept(plan));
    const int granularity = std::max(1, info_.granularity);
    const int rounded = (needed + granularity - 1) / granularity * granularity;
    // Keys may be stored wider than the precision's name says, never wider than it computes in.
    const int number = info_.dtype == "float64" ? 8 : 4;
    const std::int64_t most =
        std::int64_t(extent_.lengths.size()) * rounded * cache_bytes_per_token(plan, number);
    if (seen.positions > 0 && seen.bytes <= 0) {
      return fmt::format("holds {} in {}", counted(seen.positions, "position"),
                         counted(seen.bytes, "byte"));
    }
    if (seen.bytes <= most) return "";
    return fmt::format("reserves {}, {} in each of {} {} {}", counted(seen.bytes, "byte"),
                       counted(rounded, "position"), counted(extent_.lengths.size(), "row"),
                       agreeing(rounded, "takes", "take"), most);
  }

  const std::vector<LayerPlan>& plan_;
  const SubjectInfo& info_;
  const Extent& extent_;
};

class MemoryAccounting : public GeneratedProperty {
 public:
  const char* name() const override { return "memory-accounting"; }
  const char* sentence() const override {
    return "A cache holds what the sharing plan says: nothing for consumers, no more than window, "
           "margin and chunk for sliding layers, the right lengths.";
  }
  const char* source() const override {
    return "subject-protocol.md, mlx-lm #260, tpu-inference #3299";
  }
  std::vector<std::string> needs() const override { return {"cache", "cache_report"}; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    return guarded(test_case, judgement, [&](const ModelConfig& config) {
      const LoadedModel model(judgement.subject, judgement.model);
      const std::vector<LayerPlan> plan = plan_layers(config);
      CallRunner runner(judgement.subject, model.id());
      Extents extents;
      RowLedger ledger;
      for (std::size_t i = 0; i < test_case.calls.size(); ++i) {
        ledger.apply(test_case.calls[i]);  // refuses calls that make no sense
        runner.run(test_case.calls[i], false);
        extents.apply(test_case.calls[i]);
        for (const auto& [session, extent] : extents.open()) {
          const CacheReport report = judgement.subject.cache(runner.id(session));
          int layer = -1;
          const std::string wrong =
              Audit(plan, judgement.subject.info(), extent).complaint(report, layer);
          if (!wrong.empty()) return differs(static_cast<int>(i), session, layer, plan, wrong);
        }
      }
      return Verdict{};
    });
  }

 protected:
  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    const int kind = draw.between(0, 3);
    if (kind > 0) return draw_session_life(draw, bounds);
    const int batch = draw.one_of({1, 1, 2});
    return draw_chunked_prompt(draw, bounds, batch);
  }

 private:
  static Verdict differs(int call, int session, int layer, const std::vector<LayerPlan>& plan,
                         const std::string& wrong) {
    Verdict verdict;
    verdict.kind = VerdictKind::differs;
    verdict.message = fmt::format("after call {}, session {}: {}", call, session, wrong);
    Difference at;
    at.call = call;
    at.layer = layer;
    at.part = "cache";
    verdict.first_difference = at;
    if (layer < 0) {
      verdict.cause = "rows are counted wrongly: look at the call before";
    } else if (!plan[layer].owns_keys()) {
      verdict.cause = "a cache is made for a layer that never writes (mlx-lm #260)";
    } else if (plan[layer].window > 0) {
      verdict.cause = "the sliding layer forgets too early, or keeps what no query can see";
    }
    return verdict;
  }
};

}  // namespace

std::unique_ptr<Property> memory_accounting() {
  return std::make_unique<MemoryAccounting>();
}

}  // namespace kvconform
