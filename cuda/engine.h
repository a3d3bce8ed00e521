// The optimised implementation of Gemma 3n and Gemma 4 text models, on a GPU or on emulated
// threads. It takes configuration, sharing plan and weights from reference/, and none of its
// arithmetic.
//
//   auto engine = std::make_shared<cuda::Engine>(Checkpoint::open(folder));
//   cuda::Session session(engine, {.batch = 2, .capacity = 128});
//   std::vector<float> logits = session.extend({{1, 2, 3}, {4}});      // [4, V]
//   session.extend({{5}, {}}, cuda::Wanted::none);                    // fast prefill, no logits
//   session.rewind({2, 1});
//
// Promise: score = one shot = any chunking = token by token = a row of any batch = after rewind,
// fork, reorder and restore = any form of any kernel, ring size and number of devices, bit for bit.
// One engine, one build, one kind of device. Errors: KV15xx (README.md).
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "cuda/device_weights.h"
#include "cuda/key_value_store.h"
#include "cuda/rope_tables.h"
#include "cuda/workspace.h"
#include "reference/trace.h"

namespace kvconform::cuda::inline DV_MACHINE {

struct EngineOptions {
  std::vector<int> devices;  ///< of each layer; empty: device 0 for all
  ProjectionForm projection = ProjectionForm::by_shape;
  AttentionForm attention = AttentionForm::by_shape;
};

/// A model on its devices. Shared by the sessions that use it; constant once made.
class Engine {
 public:
  explicit Engine(std::shared_ptr<const Checkpoint> checkpoint, EngineOptions options = {});

  const ModelConfig& config() const { return checkpoint_->config(); }
  const std::vector<LayerPlan>& plan() const { return checkpoint_->plan(); }
  const EngineOptions& options() const { return options_; }
  const std::vector<int>& devices() const { return options_.devices; }  ///< one a layer
  const DeviceWeights& weights() const { return weights_; }
  float quantile(int layer) const { return quantiles_[layer]; }  ///< Φ⁻¹ of its sparsity
  int last_owner() const { return last_owner_; }
  std::uint64_t digest() const { return digest_; }  ///< of the configuration, for saved sessions

  /// Logits of every position of every row, [Σ T, V]: a session that keeps everything and is
  /// thrown away.
  std::vector<float> score(const std::vector<std::vector<int>>& rows, Trace* trace = nullptr) const;

 private:
  std::shared_ptr<const Checkpoint> checkpoint_;
  EngineOptions options_;
  DeviceWeights weights_;
  std::vector<float> quantiles_;
  int last_owner_ = 0;
  std::uint64_t digest_ = 0;
};

enum class RewindPolicy {
  refuse,  ///< beyond the reserve: Error KV1520
  replay   ///< prefill the kept tokens again: the same bits at a prefill's cost
};

struct SessionOptions {
  int batch = 1;
  int capacity = 0;      ///< largest number of tokens a row will hold
  int start = 0;         ///< position of each row's first token
  int chunk = 512;       ///< most tokens of a launch, over all rows; longer calls are cut
  int reserve = 256;     ///< how far behind its longest length a row can be rewound
  int granularity = 64;  ///< slots of a cache are a multiple of it
  RewindPolicy policy = RewindPolicy::refuse;
  bool fast_prefill = true;
  bool poison = false;      ///< NaN over the workspace before each launch and over forgotten slots
  bool everything = false;  ///< sliding layers keep all positions too
};

/// What a session reserves on a device that has all layers, known before it is opened.
struct SessionPlan {
  struct Cache {
    int layer, slots;   ///< an owner, and the positions of a row that it keeps
    std::size_t bytes;  ///< keys and values of all rows
  };
  std::vector<Workspace::Part> workspace;  ///< parts of one allocation
  std::vector<Cache> caches;
  std::size_t workspace_bytes = 0, cache_bytes = 0, rope_bytes = 0;
  std::size_t bytes() const { return workspace_bytes + cache_bytes + rope_bytes; }
};
SessionPlan plan_session(const ModelConfig& config, const std::vector<LayerPlan>& layers,
                         const SessionOptions& options);

/// Rows of a call whose logits are asked for.
enum class Wanted { all, last, none };

class Forward;

class Session {
 public:
  Session(std::shared_ptr<const Engine> engine, const SessionOptions& options);
  ~Session();

  /// Continues every row (a list may be empty): logits of the wanted new positions, rows one after
  /// the other. Input is checked before anything changes.
  std::vector<float> extend(const std::vector<std::vector<int>>& rows, Wanted wanted = Wanted::all,
                            Trace* trace = nullptr);
  /// The same for a choice of positions: wanted[r][i] says whether token i of row r is asked for.
  std::vector<float> extend(const std::vector<std::vector<int>>& rows,
                            const std::vector<std::vector<bool>>& wanted, Trace* trace = nullptr);
  /// The greedy token of each row that got tokens in the last call, else −1: computed on the
  /// device.
  std::vector<int> greedy(const std::vector<std::vector<int>>& rows);

  void rewind(const std::vector<int>& lengths);
  void reorder(const std::vector<int>& rows);  ///< row r continues from old row rows[r]
  std::unique_ptr<Session> fork() const;
  void save(const std::filesystem::path& file) const;
  static std::unique_ptr<Session> restore(std::shared_ptr<const Engine> engine,
                                          const SessionOptions& options,
                                          const std::filesystem::path& file);

  const SessionOptions& options() const { return options_; }
  int batch() const { return options_.batch; }
  int length(int row) const { return int(rows_[row].ids.size()); }
  /// Key positions that a later query could be shown, also after a rewind, summed over the rows.
  std::int64_t positions(const LayerPlan& layer) const;
  std::int64_t bytes(const LayerPlan& layer) const { return store_.bytes(layer); }
  std::int64_t replays() const { return replays_; }
  /// Copies of new keys and values to other devices so far: one a chunk, owner and device.
  std::int64_t copies_to_devices() const;
  const std::vector<Workspace>& workspaces() const { return workspaces_; }
  const Engine& engine() const { return *engine_; }

 private:
  struct Row {
    std::vector<int> ids;  ///< of the tokens it holds
    int mark = 0;          ///< longest length since it was opened or emptied
  };
  struct Step;

  void check(const std::vector<std::vector<int>>& rows) const;
  int first_kept(const LayerPlan& layer, const Row& row) const;
  bool can_rewind(const Row& row, int length) const;
  void replay(int row, int length);
  void run_step(const Step& step, std::vector<float>& logits, Trace* trace, int trace_rows);

  std::shared_ptr<const Engine> engine_;
  SessionOptions options_;
  KeyValueStore store_;
  RopeTables ropes_;
  std::vector<Workspace> workspaces_;  ///< one a device in use
  std::vector<Row> rows_;
  std::unique_ptr<Forward> forward_;
  std::int64_t replays_ = 0;
};

}  // namespace kvconform::cuda::inline DV_MACHINE
