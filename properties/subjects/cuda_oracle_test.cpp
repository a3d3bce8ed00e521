// The CUDA engine against what Hugging Face transformers computed (golden/oracle), on every path:
// within the error budget of float32, and no worse than four times the float reference. Quick: one
// case in eight; KVCONFORM_LONG (the ctest cuda_oracle_long_test) takes all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "cuda/engine.h"
#include "golden/oracle_cases.h"
#include "golden/oracle_comparison.h"
#include "properties/yardstick.h"
#include "reference/model.h"

namespace kvconform {
namespace {

Logits widened(const std::vector<float>& logits, int vocab) {
  return {int(logits.size()) / vocab, vocab, {logits.begin(), logits.end()}};
}

Logits through_cache(const std::shared_ptr<const cuda::Engine>& engine,
                     const std::vector<int>& prompt, const std::vector<int>& lengths) {
  cuda::SessionOptions options;
  options.capacity = int(prompt.size());
  options.chunk = 8;
  options.granularity = 1;
  options.reserve = 0;
  options.poison = true;
  cuda::Session session(engine, options);
  std::vector<float> all;
  auto at = prompt.begin();
  for (int length : lengths) {
    const auto some = session.extend({std::vector<int>(at, at + length)});
    all.insert(all.end(), some.begin(), some.end());
    at += length;
  }
  return widened(all, engine->config().vocab_size);
}

/// No cache, one call, one by one, and the case's own chunks where it has some.
std::vector<Logits> every_path(const std::shared_ptr<const cuda::Engine>& engine,
                               const OracleCase& oracle, int k) {
  const std::vector<int>& prompt = oracle.prompts[k];
  std::vector<Logits> paths = {widened(engine->score({prompt}), engine->config().vocab_size)};
  if (!oracle.cached) return paths;
  paths.push_back(through_cache(engine, prompt, {int(prompt.size())}));
  paths.push_back(through_cache(engine, prompt, std::vector<int>(prompt.size(), 1)));
  if (oracle.chunks && oracle.chunks->prompt == k)
    paths.push_back(through_cache(engine, prompt, oracle.chunks->lengths));
  return paths;
}

/// Share of the budget of its worst row.
double budget_used(const Logits& logits, const ExpectedArray& truth, const Assessment& budget) {
  double worst = 0;
  for (int p = 0; p < logits.positions; ++p) {
    if (budget.ill_conditioned[p]) continue;
    for (int i = 0; i < logits.vocab; ++i) {
      const std::size_t at = std::size_t(p) * logits.vocab + i;
      const double share = std::fabs(logits.values[at] - truth.values[at]) / budget.budget[p];
      if (!(share <= worst)) worst = share;
    }
  }
  return worst;
}

TEST(CudaEngine, AgreesWithTransformersWithinItsBudgetAndFourTimesTheReference) {
  const std::size_t step = std::getenv("KVCONFORM_LONG") ? 1 : 8;
  const auto cases = load_oracle_cases();
  double most_used = 0, most_times = 0;
  std::vector<double> times;
  for (std::size_t c = 0; c < cases.size(); c += step) {
    const OracleCase& oracle = cases[c];
    const auto checkpoint = Checkpoint::open(oracle.folder);
    const auto engine = std::make_shared<const cuda::Engine>(checkpoint);
    const Model<Float32> reference(checkpoint);
    Yardstick yardstick(checkpoint, "float32");
    double own = 0,
           references = 0;  // largest errors over the prompts: one alone is a draw of noise
    for (int k = 0; k < int(oracle.prompts.size()); ++k) {
      const ExpectedArray& truth = oracle.array(k, "logits_f64");
      const auto paths = every_path(engine, oracle, k);
      for (const Logits& path : paths) EXPECT_EQ(path.values, paths[0].values) << oracle.name;
      const Assessment& budget = yardstick.assess({oracle.prompts[k], 0}, false);
      const double used = budget_used(paths[0], truth, budget);
      EXPECT_LE(used, 1) << oracle.name << ", prompt " << k;
      const double largest = *std::max_element(truth.values.begin(), truth.values.end());
      const double floor = 4 * 0x1p-24 * std::fabs(largest);
      own = std::max(own, largest_difference(paths[0].values, truth.values));
      const Logits scored = to_logits(reference.score({oracle.prompts[k]}));
      references = std::max({references, floor, largest_difference(scored.values, truth.values)});
      most_used = std::max(most_used, used);
    }
    times.push_back(own / references);
    EXPECT_LE(times.back(), 4) << oracle.name;
    most_times = std::max(most_times, times.back());
  }
  std::sort(times.begin(), times.end());
  std::printf(
      "%zu checkpoints: at most %.2f of the budget; %.2f times the reference's error in the "
      "median, %.2f at most\n",
      times.size(), most_used, times[times.size() / 2], most_times);
}

}  // namespace
}  // namespace kvconform
