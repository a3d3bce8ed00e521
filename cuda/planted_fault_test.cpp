// Kernels that are wrong on purpose (kernels/planted_faults.h): each is caught by the gate named
// for it, the missing barriers by the happens-before checker in one fifo run; the healthy kernels
// pass every gate. A new fault needs a row here.
#include <cmath>
#include <functional>

#include "cuda/emulator/checked_run.h"
#include "cuda/kernels/planted_faults.h"
#include "cuda/session_life.h"
#include "cuda/test_models.h"
#include "reference/model.h"

namespace kvconform::cuda {

PlantedFault& planted_fault() {
  static PlantedFault fault = PlantedFault::none;
  return fault;
}

namespace {

using Tokens = std::vector<int>;

struct Loaded {
  std::shared_ptr<const Checkpoint> checkpoint;
  std::shared_ptr<const Engine> engine, split;

  explicit Loaded(const std::string& name) {
    for (const TestModel& model : test_models())
      if (model.name == name) checkpoint = model.checkpoint();
    engine = std::make_shared<const Engine>(checkpoint);
    EngineOptions options;
    options.attention = AttentionForm::split;
    options.projection = ProjectionForm::split;
    split = std::make_shared<const Engine>(checkpoint, options);
  }
};

const Loaded& model(const std::string& name) {
  static std::map<std::string, std::unique_ptr<Loaded>> loaded;
  auto& entry = loaded[name];
  if (!entry) entry = std::make_unique<Loaded>(name);
  return *entry;
}

Tokens prompt(int count) {
  RandomNumbers random{4};
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(random.between(0, 39));
  return tokens;
}

SessionOptions small_session(int batch, int capacity) {
  SessionOptions options;
  options.batch = batch;
  options.capacity = capacity;
  options.chunk = 9;
  options.reserve = 4;
  options.granularity = 1;
  options.poison = true;
  return options;
}

// ---- gates: true where something is wrong ----

/// The logits are those of the reference in double, by far more than float32 costs.
bool disagrees(const std::string& name, int length) {
  const Loaded& m = model(name);
  const auto truth = Model<Float64>(m.checkpoint).score({prompt(length)});
  const auto logits = m.engine->score({prompt(length)});
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (!(std::fabs(logits[i] - truth.values[i]) <= 1e-3)) return true;  // 5e-5 is healthy
  return false;
}

bool gate_agreement() {
  return disagrees("gemma3n", 20) || disagrees("gemma4_experts", 20) ||
         disagrees("gemma3n_groups", 20);
}
bool gate_agreement_of_long_prompts() {
  return disagrees("gemma4", 140);
}
bool gate_agreement_of_wide_models() {
  return disagrees("gemma3n_wide", 3);
}

/// Split forms, loops and single tokens give one score's bits.
bool gate_forms() {
  const Loaded& m = model("gemma4");
  if (!same_bits(m.engine->score({prompt(70)}), m.split->score({prompt(70)}))) return true;
  const Loaded& wide = model("gemma3n_wide");
  return !same_bits(wide.engine->score({prompt(9)}), wide.split->score({prompt(9)}));
}

bool gate_life(const std::string& name, int batch, int capacity) {
  const Loaded& m = model(name);
  return !SessionLife(m.engine, m.engine, small_session(batch, capacity), 3).run(4);
}
bool gate_ring() {
  return gate_life("gemma3n", 1, 40);
}
bool gate_batch() {
  return gate_life("gemma4", 3, 20);
}

/// A row of zeros before a projection of streams: 0/0 without its bound.
bool gate_zero_row() {
  const auto y = on_device(std::vector<float>(24)), target = on_device(std::vector<float>(24));
  match_magnitude(y.data(), 24, target.data(), 24, 1, 24);
  for (float v : back(y))
    if (v != v) return true;
  return false;
}

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
const Gate kAgreement{"agreement", gate_agreement};
const Gate kLong{"agreement of long prompts", gate_agreement_of_long_prompts};
const Gate kWide{"agreement of wide models", gate_agreement_of_wide_models};
const Gate kForms{"forms", gate_forms};
const Gate kRing{"ring", gate_ring};
const Gate kBatch{"batch", gate_batch};
const Gate kZeroRow{"zero row", gate_zero_row};
const Gate kRaces{"races", gate_races};
const Gate kTraffic{"traffic", gate_traffic};

struct Planted {
  PlantedFault fault;
  const char* name;
  Gate caught_by;
};

#define ROW(fault, gate) \
  { PlantedFault::fault, #fault, gate }
const Planted planted[] = {ROW(norm_reads_pieces_too_early, kRaces),
                           ROW(norm_half_the_block_skips_a_barrier, kRaces),
                           ROW(projection_multiplies_before_x_arrived, kRaces),
                           ROW(projection_overwrites_x_too_early, kRaces),
                           ROW(projection_folds_too_early, kRaces),
                           ROW(attention_softmax_too_early, kRaces),
                           ROW(attention_weighs_too_early, kRaces),
                           ROW(attention_overwrites_scores_too_early, kRaces),
                           ROW(attention_merges_too_early, kRaces),
                           ROW(projection_tile_edge, kRaces),
                           ROW(projection_drops_last_piece, kWide),
                           ROW(projection_row_of_the_block_before, kAgreement),
                           ROW(projection_chain_over_all_of_k, kForms),
                           ROW(attention_drops_last_key_piece, kLong),
                           ROW(attention_window_from_piece_boundary, kAgreement),
                           ROW(attention_window_one_too_wide, kAgreement),
                           ROW(attention_next_key_head, kAgreement),
                           ROW(attention_merges_unwritten_pieces, kForms),
                           ROW(attention_first_rows_cache, kBatch),
                           ROW(append_slot_after_the_wrap, kRing),
                           ROW(append_32_bit_offset, kBatch),
                           ROW(rope_position_of_the_call, kRing),
                           ROW(rope_interleaved_pairs, kAgreement),
                           ROW(gate_takes_the_next_rows_up, kAgreement),
                           ROW(experts_weight_of_the_first_choice, kAgreement),
                           ROW(sparsity_sample_deviation, kAgreement),
                           ROW(magnitude_without_bound, kZeroRow),
                           ROW(projection_reads_weights_twice, kTraffic)};
#undef ROW

class EachFault : public testing::TestWithParam<Planted> {
 protected:
  void TearDown() override { planted_fault() = PlantedFault::none; }
};

TEST_P(EachFault, is_caught_by_its_gate) {
  planted_fault() = GetParam().fault;
  EXPECT_TRUE(GetParam().caught_by.fails()) << GetParam().caught_by.name << " saw nothing";
}

INSTANTIATE_TEST_SUITE_P(Planted, EachFault, testing::ValuesIn(planted),
                         [](const auto& row) { return row.param.name; });

TEST(HealthyKernels, pass_every_gate) {
  for (const Gate& gate :
       {kAgreement, kLong, kWide, kForms, kRing, kBatch, kZeroRow, kRaces, kTraffic})
    EXPECT_FALSE(gate.fails()) << gate.name;
}

TEST(TheTable, has_a_row_for_every_fault) {
  EXPECT_EQ(std::size(planted), std::size_t(PlantedFault::last) - 1);
}

}  // namespace
}  // namespace kvconform::cuda
