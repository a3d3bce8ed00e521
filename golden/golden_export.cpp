// Writing config.json, model.safetensors, case.json and expected.safetensors.
#include "golden/golden_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "golden/approved_file.h"
#include "golden/sha256.h"
#include "reference/safetensors.h"

namespace kvconform {
namespace {

namespace fs = std::filesystem;

void write_expected(const fs::path& file, const CallLogits& calls) {
  TensorTable table;
  for (std::size_t call = 0; call < calls.size(); ++call) {
    const Logits& logits = calls[call];
    if (logits.positions == 0) continue;
    auto* out = reinterpret_cast<float*>(
        table.add(fmt::format("{}.logits", call), Dtype::f32, {logits.positions, logits.vocab}));
    std::copy(logits.values.begin(), logits.values.end(), out);
  }
  write_safetensors(file, table);
}

}  // namespace

void export_golden(const Recipe& recipe, const Numerics& numerics, const fs::path& folder) {
  const auto model = make_model(recipe);
  const auto checkpoint = model->checkpoint();
  const Computation computed = compute(recipe, *model, numerics, false);
  write_checkpoint(folder, checkpoint->config_json(), checkpoint->tensors());
  write_expected(folder / "expected.safetensors", computed.logits);
  nlohmann::ordered_json calls =
      nlohmann::ordered_json::parse(waypoints_of(recipe, *checkpoint).calls);
  for (std::size_t call = 0; call < calls.size(); ++call) {
    const Logits& logits = computed.logits[call];
    if (logits.positions == 0) continue;
    calls[call]["expected"] = fmt::format("{}.logits", call);
    calls[call]["sha256"] = sha256(logits);
  }
  const nlohmann::ordered_json j = {{"name", recipe.name},
                                    {"about", recipe.about},
                                    {"numerics", numerics.kind},
                                    {"sha256", hash_of(computed.logits)},
                                    {"calls", calls}};
  write_golden_text(folder / "case.json", j.dump(1) + "\n");
}

}  // namespace kvconform
