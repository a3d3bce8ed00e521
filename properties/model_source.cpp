// Where the model of a case comes from: random weights in memory, or a checkpoint folder. In-memory
// models are written to a temporary folder only when a subject asks for a path (subjects in other
// processes do), and the folder goes with the last user.
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>

#include "properties/case.h"
#include "properties/temporary_folder.h"
#include "reference/error.h"
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

class GeneratedSource : public ModelSource {
 public:
  explicit GeneratedSource(const ModelSpec& spec)
      : config_(parse_config_text(spec.config_text, "the case's config")),
        checkpoint_(Checkpoint::from_tensors(config_, random_weights(config_, spec.weights))) {}

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

}  // namespace

std::unique_ptr<ModelSource> make_model_source(const ModelSpec& spec) {
  if (!spec.folder.empty()) return std::make_unique<FolderSource>(spec.folder);
  return std::make_unique<GeneratedSource>(spec);
}

TemporaryFolder::TemporaryFolder(const std::string& name) {
  std::string pattern = (std::filesystem::temp_directory_path() / (name + "-XXXXXX")).string();
  if (mkdtemp(pattern.data()) == nullptr) {
    throw HarnessError("KV2011", "cannot make a temporary folder " + pattern,
                       "check that TMPDIR names a writable folder with room");
  }
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // a destructor has nobody to tell
  if (!kept_) std::filesystem::remove_all(path_, ignored);
}

}  // namespace kvconform
