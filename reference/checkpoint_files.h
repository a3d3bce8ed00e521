// The files of a checkpoint folder: which ones there are, what tensors they hold together, and how
// a new folder is written whole or not at all. Knows nothing of models. Errors: KV1301–KV1308,
// KV1315, KV1320.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reference/safetensors.h"

namespace kvconform {

/// All tensors of a checkpoint, whatever file they came from.
struct StoredTensors {
  TensorTable table;
  std::map<std::string, RawTensor> others;  ///< in number formats that no model here computes with
  std::vector<std::string> warnings;
  std::string origin;  ///< file or folder, as errors name it
};

/// The text of `config.json` in `folder`.
std::string read_config_text(const std::filesystem::path& folder);

/// One safetensors file, or a folder with `model.safetensors` or shards and their index.
StoredTensors read_stored_tensors(const std::filesystem::path& weights);

/// A folder that is being filled: made if missing, refused unless empty. Without commit() the
/// destructor removes `config.json`, `model.safetensors` and the folders it made.
class NewFolder {
 public:
  explicit NewFolder(std::filesystem::path folder);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  std::filesystem::path config_file() const { return folder_ / "config.json"; }
  std::filesystem::path weights_file() const { return folder_ / "model.safetensors"; }
  void write_config(const std::string& text);

  /// Throws HarnessError KV1320 unless the disk has room for this many bytes.
  void require_space(std::uint64_t bytes) const;
  void commit() { committed_ = true; }

 private:
  std::filesystem::path folder_;
  std::filesystem::path first_made_;  ///< topmost folder that did not exist before; empty: none
  bool committed_ = false;
};

}  // namespace kvconform
