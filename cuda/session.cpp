// Calls cut into launches, lengths and marks of rows, what is refused.
#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "cuda/forward.h"
#include "reference/counted.h"
#include "reference/error.h"

namespace kvconform::cuda::inline DV_MACHINE {
namespace {

using TokenLists = std::vector<std::vector<int>>;

const SessionOptions& checked(const ModelConfig& config, const SessionOptions& o) {
  const bool overflows = o.start >= 0 && o.capacity > std::numeric_limits<int>::max() - o.start;
  if (o.batch < 1 || o.capacity < 0 || o.start < 0 || overflows || o.chunk < 1 || o.reserve < 0 ||
      o.granularity < 1)
    throw Error("KV1507",
                "a session of batch " + std::to_string(o.batch) + ", capacity " +
                    std::to_string(o.capacity) + ", start " + std::to_string(o.start) + ", chunk " +
                    std::to_string(o.chunk) + ", reserve " + std::to_string(o.reserve) +
                    ", granularity " + std::to_string(o.granularity),
                "give at least 1 for batch, chunk and granularity, no negative numbers, and "
                "positions of 31 bits");
  if (config.bidirectional_all && !o.everything)
    throw Error("KV1505",
                "use_bidirectional_attention is \"all\": later tokens change earlier rows",
                "score whole sequences; no cache makes sense");
  return o;
}

StoreShape store_shape(const SessionOptions& o) {
  return {o.batch, o.capacity, o.chunk, o.reserve, o.granularity, o.everything};
}

WorkspaceSizes workspace_sizes(const SessionOptions& o) {
  WorkspaceSizes sizes;
  sizes.tokens = o.chunk;
  sizes.batch = o.batch;
  const int last = o.start + (std::max(1, o.capacity) - 1);
  sizes.key_pieces = last / kKeyPiece - o.start / kKeyPiece + 1;
  return sizes;
}

std::vector<Workspace> make_workspaces(const Engine& engine, const SessionOptions& o) {
  WorkspaceSizes sizes = workspace_sizes(o);
  sizes.any_form = engine.options().attention == AttentionForm::split ||
                   engine.options().projection == ProjectionForm::split;
  std::vector<Workspace> workspaces;
  for (int device : std::set<int>(engine.devices().begin(), engine.devices().end()))
    workspaces.emplace_back(engine.config(), engine.plan(), sizes, device);
  return workspaces;
}

int per_layer_row(const ModelConfig& config, int id) {
  if (id < config.vocab_size_per_layer_input) return id;
  if (config.family == Family::gemma3n) return 0;
  throw Error("KV1502",
              "token " + std::to_string(id) + " has no row in the per-layer table (" +
                  counted(config.vocab_size_per_layer_input, "row") + ")",
              "use token ids below vocab_size_per_layer_input with a Gemma 4 model");
}

std::string text(int number) {
  return std::to_string(number);
}

}  // namespace

SessionPlan plan_session(const ModelConfig& config, const std::vector<LayerPlan>& layers,
                         const SessionOptions& options) {
  checked(config, options);
  SessionPlan plan;
  plan.workspace = Workspace::planned(config, layers, workspace_sizes(options));
  plan.workspace_bytes = Workspace::bytes_of(plan.workspace);
  for (const LayerPlan& layer : layers) {
    if (!layer.owns_keys()) continue;
    const StoreShape shape = store_shape(options);
    plan.caches.push_back({layer.layer, KeyValueStore::slots_of(layer, shape),
                           KeyValueStore::bytes_of(layer, shape)});
    plan.cache_bytes += plan.caches.back().bytes;
  }
  plan.rope_bytes = RopeTables::floats(layers, options.capacity) * sizeof(float);
  return plan;
}

struct Session::Step {
  Tokens tokens;
  std::vector<int> added;  ///< tokens of each row
};

Session::Session(std::shared_ptr<const Engine> engine, const SessionOptions& options)
    : engine_(std::move(engine)),
      options_(checked(engine_->config(), options)),
      store_(engine_->plan(), engine_->devices(), store_shape(options)),
      ropes_(engine_->plan(), engine_->devices(), options.start, options.capacity),
      workspaces_(make_workspaces(*engine_, options)),
      rows_(options.batch),
      forward_(std::make_unique<Forward>(*engine_, ropes_, store_, workspaces_, options)) {
  for (Row& row : rows_) row.ids.reserve(options.capacity);
}

Session::~Session() = default;

void Session::check(const TokenLists& rows) const {
  if (int(rows.size()) != batch())
    throw Error("KV1503",
                "the call has " + counted(rows.size(), "row") + " for a batch of " + text(batch()),
                "give one list of tokens a row; a list may be empty");
  const ModelConfig& config = engine_->config();
  for (int r = 0; r < batch(); ++r) {
    if (length(r) + rows[r].size() > std::size_t(options_.capacity))
      throw Error("KV1504",
                  "row " + text(r) + " holds " + counted(length(r), "token") + " and gets " +
                      std::to_string(rows[r].size()) + " more, past its capacity of " +
                      text(options_.capacity),
                  "open the session with a larger capacity");
    for (int id : rows[r]) {
      if (id < 0 || id >= config.vocab_size)
        throw Error(
            "KV1501",
            "token " + text(id) + " is outside the vocabulary of " + text(config.vocab_size),
            "use token ids from 0 to vocab_size − 1");
      if (config.hidden_size_per_layer_input > 0) per_layer_row(config, id);
    }
  }
}

void Session::run_step(const Step& step, std::vector<float>& logits, Trace* trace, int trace_rows) {
  const Tokens& tokens = step.tokens;
  if (options_.poison)
    for (Workspace& w : workspaces_) w.poison();
  forward_->run(tokens, trace, trace_rows);
  const std::size_t v = engine_->config().vocab_size, at = logits.size();
  logits.resize(at + tokens.wanted.size() * v);
  if (forward_->rows() == int(tokens.wanted.size())) {
    dv::download(logits.data() + at, forward_->logits(), tokens.wanted.size() * v * sizeof(float));
  } else {  // every row went through
    for (std::size_t i = 0; i < tokens.wanted.size(); ++i)
      dv::download(logits.data() + at + i * v, forward_->logits() + tokens.wanted[i] * v,
                   v * sizeof(float));
  }
  for (int r = 0, token = 0; r < batch(); ++r) {
    for (int i = 0; i < step.added[r]; ++i) rows_[r].ids.push_back(tokens.ids[token++]);
    rows_[r].mark = std::max(rows_[r].mark, length(r));
  }
}

std::vector<float> Session::extend(const TokenLists& rows, Wanted wanted, Trace* trace) {
  std::vector<std::vector<bool>> flags;
  for (const auto& row : rows) {
    flags.emplace_back(row.size(), wanted == Wanted::all);
    if (wanted == Wanted::last && !row.empty()) flags.back().back() = true;
  }
  return extend(rows, flags, trace);
}

std::vector<float> Session::extend(const TokenLists& rows,
                                   const std::vector<std::vector<bool>>& wanted, Trace* trace) {
  check(rows);
  if (wanted.size() != rows.size())
    throw Error("KV1503", "wanted has another number of rows than the call",
                "give a flag for every token");
  std::vector<int> first_output(batch()), fed(batch(), 0);
  int total = 0;
  for (int r = 0; r < batch(); ++r) {
    first_output[r] = total;
    total += int(rows[r].size());
  }
  std::vector<float> logits;
  std::vector<std::vector<float>> of_row(batch());
  const std::size_t v = engine_->config().vocab_size;
  for (int done = 0; done < total;) {
    Step step;
    step.added.assign(batch(), 0);
    for (int r = 0; r < batch(); ++r) {
      const int room = options_.chunk - step.tokens.count();
      const int count = std::min(room, int(rows[r].size()) - fed[r]);
      for (int i = 0; i < count; ++i) {
        const int at = fed[r] + i, id = rows[r][at];
        if (wanted[r][at]) step.tokens.wanted.push_back(step.tokens.count());
        step.tokens.ids.push_back(id);
        step.tokens.per_layer_ids.push_back(engine_->config().hidden_size_per_layer_input > 0
                                                ? per_layer_row(engine_->config(), id)
                                                : 0);
        step.tokens.output.push_back(first_output[r] + at);
        const int next = options_.start + length(r);
        step.tokens.places.push_back({r, next + i, next + count - 1});
      }
      fed[r] += count;
      step.added[r] = count;
    }
    logits.clear();
    run_step(step, logits, trace, total);
    for (std::size_t i = 0; i < step.tokens.wanted.size(); ++i) {
      auto& to = of_row[step.tokens.places[step.tokens.wanted[i]].row];
      to.insert(to.end(), logits.begin() + i * v, logits.begin() + (i + 1) * v);
    }
    done += step.tokens.count();
  }
  logits.clear();
  for (const auto& part : of_row) logits.insert(logits.end(), part.begin(), part.end());
  return logits;
}

std::vector<int> Session::greedy(const TokenLists& rows) {
  int fed = 0;
  std::vector<int> chosen(batch(), -1);
  for (const auto& row : rows) fed += !row.empty();
  int total = 0;
  for (const auto& row : rows) total += int(row.size());
  if (total > options_.chunk)
    throw Error("KV1507",
                "a greedy step of " + counted(total, "token") + " is longer than the chunk of " +
                    text(options_.chunk),
                "extend by the first of them, then ask for the greedy token");
  extend(rows, Wanted::last);
  if (fed == 0 || forward_->rows() != fed) return chosen;
  argmax(forward_->logits(), forward_->greedy(), fed, engine_->config().vocab_size);
  dv::synchronize();
  std::vector<int> found(fed);
  dv::download(found.data(), forward_->greedy(), fed * sizeof(int));
  for (int r = 0, i = 0; r < batch(); ++r)
    if (!rows[r].empty()) chosen[r] = found[i++];
  return chosen;
}

/// Kept positions: [mark − (W − 1 + reserve), length) for a sliding layer.
int Session::first_kept(const LayerPlan& layer, const Row& row) const {
  if (layer.window == 0 || options_.everything) return 0;
  return int(
      std::max<std::int64_t>(0, row.mark - (std::int64_t(layer.window) - 1 + options_.reserve)));
}

bool Session::can_rewind(const Row& row, int length) const {
  for (const LayerPlan& layer : engine_->plan()) {
    if (!layer.owns_keys() || layer.window == 0) continue;
    if (std::max(0, length - layer.window + 1) < first_kept(layer, row)) return false;
  }
  return true;
}

void Session::replay(int row, int length) {
  ++replays_;
  TokenLists again(batch());
  again[row].assign(rows_[row].ids.begin(), rows_[row].ids.begin() + length);
  rows_[row].ids.clear();
  rows_[row].mark = 0;
  extend(again, Wanted::none);
}

void Session::rewind(const std::vector<int>& lengths) {
  if (int(lengths.size()) != batch())
    throw Error(
        "KV1522",
        "rewind names " + counted(lengths.size(), "length") + " for a batch of " + text(batch()),
        "give one length a row");
  for (int r = 0; r < batch(); ++r) {
    if (lengths[r] < 0 || lengths[r] > length(r))
      throw Error("KV1521",
                  "row " + text(r) + " cannot be rewound to length " + text(lengths[r]) +
                      ": it holds " + counted(length(r), "token"),
                  "give a length from 0 to the row's own");
    const bool moves = lengths[r] != 0 && lengths[r] != length(r);
    if (moves && options_.policy == RewindPolicy::refuse && !can_rewind(rows_[r], lengths[r]))
      throw Error("KV1520",
                  "row " + text(r) + " cannot be rewound to length " + text(lengths[r]) +
                      ": its longest length was " + text(rows_[r].mark) +
                      " and sliding layers keep a reserve of " +
                      counted(options_.reserve, "position") + " behind it",
                  "open the session with a reserve of " + text(rows_[r].mark - lengths[r]) +
                      ", or with the policy that replays");
  }
  for (int r = 0; r < batch(); ++r) {
    Row& row = rows_[r];
    if (lengths[r] == length(r)) continue;
    if (lengths[r] > 0 && !can_rewind(row, lengths[r])) {
      replay(r, lengths[r]);
      continue;
    }
    if (options_.poison) store_.poison(r, options_.start + lengths[r], options_.start + length(r));
    row.ids.resize(lengths[r]);
    if (lengths[r] == 0) row.mark = 0;
  }
}

void Session::reorder(const std::vector<int>& rows) {
  if (int(rows.size()) != batch())
    throw Error("KV1522",
                "reorder names " + counted(rows.size(), "row") + " for a batch of " + text(batch()),
                "name exactly one source row for each row");
  for (int source : rows)
    if (source < 0 || source >= batch())
      throw Error("KV1522", "reorder names row " + text(source) + " of a batch of " + text(batch()),
                  "name rows from 0 to batch − 1");
  KeyValueStore gathered(engine_->plan(), engine_->devices(), store_shape(options_));
  gathered.take(store_, rows);
  store_ = std::move(gathered);
  std::vector<Row> reordered;
  for (int source : rows) reordered.push_back(rows_[source]);
  rows_ = std::move(reordered);
}

std::unique_ptr<Session> Session::fork() const {
  auto copy = std::make_unique<Session>(engine_, options_);
  std::vector<int> same(batch());
  std::iota(same.begin(), same.end(), 0);
  copy->store_.take(store_, same);
  copy->rows_ = rows_;
  copy->replays_ = replays_;
  return copy;
}

std::int64_t Session::positions(const LayerPlan& layer) const {
  if (!layer.owns_keys()) return 0;
  std::int64_t total = 0;
  for (const Row& row : rows_) total += std::max(0, int(row.ids.size()) - first_kept(layer, row));
  return total;
}

std::int64_t Session::copies_to_devices() const {
  return forward_->copies_to_devices();
}

}  // namespace kvconform::cuda::inline DV_MACHINE
