// Planted faults that kernels alone show, without models and properties: missing barriers, by the
// happens-before checker in one fifo run, and a price that only counts show. What is wrong in
// numbers is a row of `kvconform faults` (properties/faults/kernel_faults.cpp), and so are the
// races once more. The healthy kernels pass every gate.
#include <gtest/gtest.h>

#include <cstdio>

#include "cuda/emulator/checked_run.h"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/planted_faults.h"
#include "cuda/test_arrays.h"

namespace kvconform::cuda {
namespace {

void run_norms_and_products() {
  RandomNumbers random{8};
  for (int width : {300, 1500}) {
    const auto x = on_device(random.numbers(3 * width)), y = fresh(3 * width);
    rms_norm({x.data(), nullptr, y.data(), 3, width, width, width, 1e-6f});
  }
  const int k = 1100, n = 20;
  const auto w = on_device(random.numbers(k * n));
  for (int tokens : {1, 9}) {
    const auto x = on_device(random.numbers(tokens * k), "x"), y = fresh(tokens * n);
    for (auto form : {ProjectionForm::loop, ProjectionForm::group}) {
      Projection p{x.data(), w.data(), nullptr, y.data(), tokens, k, n, k, n};
      p.form = form;
      project(p);
    }
  }
}

void run_attention() {
  RandomNumbers random{8};
  const int slots = 140, d = 8, heads = 4, pieces = 3;
  const auto keys = on_device(random.numbers(slots * d)),
             values = on_device(random.numbers(slots * d));
  const auto q = on_device(random.numbers(2 * heads * d)), out = fresh(2 * heads * d);
  const auto work = fresh(attention_workspace(2, heads, d, pieces));
  const auto places = on_device<TokenPlace>({{0, 138, 139}, {0, 139, 139}});
  for (auto form : {AttentionForm::loop, AttentionForm::split}) {
    Attention a{q.data(),
                CacheView(OwnerCache{keys.data(), values.data(), slots}),
                places.data(),
                out.data(),
                2,
                heads,
                1,
                d,
                kEverything,
                0,
                pieces};
    a.form = form;
    a.workspace = work.data();
    a.workspace_floats = work.count();
    attend(a);
  }
}

/// The kernels with barriers in one fifo run under the checker: races, accesses past an end,
/// divergence. (engine_test_watched is the silence of all kernels over whole models.)
bool gate_races() {
  dv::emu::CheckedRun run;
  try {
    run_norms_and_products();
    run_attention();
  } catch (const dv::emu::Error& e) {
    printf("  %s\n", e.what());
    return true;
  }
  if (!run.reports().empty()) printf("  %s\n", run.reports()[0].c_str());
  return !run.reports().empty();
}

/// A product of one token reads each weight once.
bool gate_traffic() {
  RandomNumbers random{8};
  const int k = 300, n = 20;
  const auto w = on_device(random.numbers(k * n), "weights"), x = on_device(random.numbers(k));
  const auto y = fresh(n);
  dv::emu::CheckedRun run(/*count_traffic=*/true);
  project({x.data(), w.data(), nullptr, y.data(), 1, k, n, k, n});
  const dv::emu::BufferTraffic weights = run.buffer("weights");
  return weights.distinct_read != 4 * k * n || weights.read != weights.distinct_read;
}

struct Gate {
  const char* name;
  bool (*fails)();
};
const Gate kRaces{"races", gate_races};
const Gate kTraffic{"traffic", gate_traffic};

struct Planted {
  PlantedFault fault;
  const char* name;
  Gate caught_by;
};

#define ROW(fault, gate) \
  { PlantedFault::fault, #fault, gate }
const Planted kTable[] = {ROW(norm_reads_pieces_too_early, kRaces),
                          ROW(norm_half_the_block_skips_a_barrier, kRaces),
                          ROW(projection_multiplies_before_x_arrived, kRaces),
                          ROW(projection_overwrites_x_too_early, kRaces),
                          ROW(projection_folds_too_early, kRaces),
                          ROW(attention_softmax_too_early, kRaces),
                          ROW(attention_weighs_too_early, kRaces),
                          ROW(attention_overwrites_scores_too_early, kRaces),
                          ROW(attention_merges_too_early, kRaces),
                          ROW(projection_tile_edge, kRaces),
                          ROW(projection_reads_weights_twice, kTraffic)};
#undef ROW

class EachFault : public testing::TestWithParam<Planted> {
 protected:
  void TearDown() override { plant(PlantedFault::none); }
};

TEST_P(EachFault, is_caught_by_its_gate) {
  plant(GetParam().fault);
  EXPECT_TRUE(GetParam().caught_by.fails()) << GetParam().caught_by.name << " saw nothing";
}

INSTANTIATE_TEST_SUITE_P(Planted, EachFault, testing::ValuesIn(kTable),
                         [](const auto& row) { return row.param.name; });

TEST(HealthyKernels, pass_every_gate) {
  for (const Gate& gate : {kRaces, kTraffic}) EXPECT_FALSE(gate.fails()) << gate.name;
}

}  // namespace
}  // namespace kvconform::cuda
