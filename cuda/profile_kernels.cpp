// Which kernels the time of emulated threads goes to: a prompt in one call and token by token, on
// each of the test models. Not a test: build it when the numbers in README.md are to be renewed.
//   cmake --build build --target profile_kernels && build/cuda/profile_kernels
#include <algorithm>
#include <cstdio>

#include "cuda/emulator/scheduler.h"
#include "cuda/engine.h"
#include "cuda/test_models.h"

using namespace kvconform;

int main() {
  dv::emu::options().timed = true;
  int tokens = 0;
  for (const cuda::TestModel& model : cuda::test_models()) {
    if (model.name == "gemma3n_wide") continue;  // not of the size that properties draw
    const auto engine = std::make_shared<const cuda::Engine>(model.checkpoint());
    std::vector<int> prompt(24);
    for (int i = 0; i < 24; ++i) prompt[i] = (i * 7) % 40;
    cuda::SessionOptions options;
    options.capacity = 24;
    cuda::Session session(engine, options);
    for (int id : prompt) session.extend({{id}});
    engine->score({prompt});
    tokens += 48;
  }
  std::vector<std::pair<std::string, dv::emu::Cost>> costs(dv::emu::profile().begin(),
                                                           dv::emu::profile().end());
  std::sort(costs.begin(), costs.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  double total = 0;
  for (const auto& [name, cost] : costs) total += cost.seconds;
  std::printf("%.2f ms a token\n", 1e3 * total / tokens);
  for (const auto& [name, cost] : costs)
    std::printf("%-24s %5.1f %%  %7.2f us a launch, %6.1f threads\n", name.c_str(),
                100 * cost.seconds / total, 1e6 * cost.seconds / double(cost.launches),
                double(cost.threads) / double(cost.launches));
}
