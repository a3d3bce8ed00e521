// Where the model of a case comes from: random weights in memory, or a checkpoint folder. In-memory
// models are written to a temporary folder only when a subject asks for a path (subjects in other
// processes do), and the folder goes with the last user.
#include <fmt/format.h>

#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>

#include "properties/case.h"
#include "properties/model_variant.h"
#include "properties/temporary_folder.h"
#include "reference/error.h"
#include "reference/random.h"
#include "reference/random_weights.h"

namespace kvconform {
namespace {

class FolderSource : public ModelSource {
 public:
  explicit FolderSource(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::shared_ptr<const Checkpoint> checkpoint() const override {
    std::call_once(opened_, [&] { checkpoint_ = Checkpoint::open(folder_); });
    return checkpoint_;
  }
  std::filesystem::path weights_path() const override { return folder_; }

 private:
  std::filesystem::path folder_;
  mutable std::once_flag opened_;
  mutable std::shared_ptr<const Checkpoint> checkpoint_;
};

class MemorySource : public ModelSource {
 public:
  MemorySource(nlohmann::json config, TensorTable tensors)
      : config_(std::move(config)),
        checkpoint_(Checkpoint::from_tensors(config_, std::move(tensors))) {}

  std::shared_ptr<const Checkpoint> checkpoint() const override { return checkpoint_; }

  std::filesystem::path weights_path() const override {
    std::call_once(written_, [&] {
      folder_ = std::make_unique<TemporaryFolder>("kvconform-model");
      write_checkpoint(folder_->path() / "model", config_, checkpoint_->tensors());
    });
    return folder_->path() / "model";
  }

 private:
  nlohmann::json config_;
  std::shared_ptr<const Checkpoint> checkpoint_;
  mutable std::once_flag written_;
  mutable std::unique_ptr<TemporaryFolder> folder_;
};

/// Files as for any other model; what is wrong shows when somebody reads them.
class RefusedSource : public ModelSource {
 public:
  RefusedSource(nlohmann::json config, TensorTable tensors)
      : config_(std::move(config)), tensors_(std::move(tensors)) {}

  std::shared_ptr<const Checkpoint> checkpoint() const override {
    return Checkpoint::from_tensors(config_, tensors_);
  }
  std::filesystem::path weights_path() const override {
    std::call_once(written_, [&] {
      folder_ = std::make_unique<TemporaryFolder>("kvconform-model");
      write_checkpoint(folder_->path() / "model", config_, tensors_);
    });
    return folder_->path() / "model";
  }
  nlohmann::json text_config() const override { return config_; }

 private:
  nlohmann::json config_;
  TensorTable tensors_;
  mutable std::once_flag written_;
  mutable std::unique_ptr<TemporaryFolder> folder_;
};

/// Tensors of a checkpoint with the dead projections of its consumers in another state.
TensorTable with_dead_state(const Checkpoint& checkpoint, DeadTensors dead) {
  TensorTable table = checkpoint.tensors();
  for (const TensorSpec& spec : tensor_specs(checkpoint.config(), checkpoint.plan())) {
    if (!spec.dead) continue;
    const std::string name = checkpoint.report().prefix + spec.name;
    table.tensors.erase(name);
    if (dead == DeadTensors::absent) continue;
    auto* numbers = reinterpret_cast<float*>(table.add(name, Dtype::f32, spec.shape));
    const RandomStream stream(stream_key(1, spec.name));
    for (std::int64_t i = 0; i < table.tensors[name].count(); ++i) {
      numbers[i] = dead == DeadTensors::nan ? std::numeric_limits<float>::quiet_NaN()
                                            : RandomStream::symmetric(stream.at(i));
    }
  }
  return table;
}

/// A tensor with the sign of every number turned, in a format that holds it exactly.
void negate(TensorTable& table, const std::string& name) {
  const auto found = table.tensors.find(name);
  if (found == table.tensors.end()) return;
  const TensorView old = found->second;
  table.tensors.erase(found);
  auto* numbers = reinterpret_cast<float*>(table.add(name, Dtype::f32, old.shape));
  for (std::int64_t i = 0; i < old.count(); ++i) numbers[i] = -element(old, i);
}

}  // namespace

std::unique_ptr<ModelSource> make_model_source(const ModelSpec& spec) {
  if (!spec.folder.empty()) return std::make_unique<FolderSource>(spec.folder);
  nlohmann::json config = parse_config_text(spec.config_text, "the case's config");
  TensorTable tensors = random_weights(config, spec.weights);
  return std::make_unique<MemorySource>(std::move(config), std::move(tensors));
}

std::unique_ptr<ModelSource> model_in_memory(nlohmann::json config, TensorTable tensors) {
  return std::make_unique<MemorySource>(std::move(config), std::move(tensors));
}

std::unique_ptr<ModelSource> model_to_refuse(nlohmann::json config, TensorTable tensors) {
  return std::make_unique<RefusedSource>(std::move(config), std::move(tensors));
}

std::unique_ptr<ModelSource> with_dead_tensors(const ModelSource& source, DeadTensors dead) {
  const auto checkpoint = source.checkpoint();
  return std::make_unique<MemorySource>(checkpoint->config_json(),
                                        with_dead_state(*checkpoint, dead));
}

std::unique_ptr<ModelSource> with_negated_keys(const ModelSource& source, int layer) {
  const auto checkpoint = source.checkpoint();
  TensorTable table = checkpoint->tensors();
  for (const char* part : {"k_proj", "v_proj"}) {
    negate(table, fmt::format("{}layers.{}.self_attn.{}.weight", checkpoint->report().prefix, layer,
                              part));
  }
  return std::make_unique<MemorySource>(checkpoint->config_json(), std::move(table));
}

}  // namespace kvconform
