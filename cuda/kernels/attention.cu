// Attention of query rows over a cache that may be a ring, in pieces of 64 absolute positions. For
// one row a piece gives, from zero and over its visible keys in ascending order: the scores (a
// chain of fmaf over D), their maximum, the sum of e^(score − maximum), and the values weighted by
// that. merge_piece joins pieces in ascending order, in a loop or in a second kernel. Keys that a
// row may not see are never read: they may be NaN. A block has one token and up to kHeads query
// heads of one key/value head; rows never mix, so grouping changes no bit.
#include "cuda/kernels/canonical.h"

namespace kvconform::cuda::inline DV_MACHINE {
namespace {

constexpr int kHeads = 8;

template <int most_dim>
struct AttentionShared {
  float score[kHeads][kKeyPiece];
  float out[kHeads][most_dim];
  float maximum[kHeads];
  RowState state[kHeads];
  MergeScale scale[kHeads];
};

/// What a block works on.
struct Work {
  TokenPlace place;
  int token, key_head, first_head, heads;
  int first, last;              ///< visible positions
  int first_piece, last_piece;  ///< that hold any
};

DV_FN Work my_work(const Attention& a) {
  const int group = a.query_heads / a.key_heads, blocks = (group + kHeads - 1) / kHeads;
  Work w;
  w.token = blockIdx.x;
  w.place = a.places[w.token];
  w.key_head = blockIdx.y / blocks;
  const int offset = blockIdx.y % blocks * kHeads;
  w.first_head = w.key_head * group + offset;
  w.heads = min(kHeads, group - offset);
  w.first = max(a.first_position, w.place.position - a.behind);
  if (FAULT(attention_window_one_too_wide)) w.first = max(a.first_position, w.first - 1);
  if (FAULT(attention_window_from_piece_boundary))
    w.first = max(a.first_position, w.first / kKeyPiece * kKeyPiece);
  w.last = w.place.last - w.place.position < a.ahead ? w.place.last : w.place.position + a.ahead;
  w.first_piece = w.first / kKeyPiece;
  w.last_piece = w.last / kKeyPiece;
  if (FAULT(attention_drops_last_key_piece) && w.last_piece > w.first_piece) --w.last_piece;
  return w;
}

DV_FN std::size_t cache_offset(const Attention& a, const Work& w, int position) {
  const int row = FAULT(attention_first_rows_cache) ? 0 : w.place.row;
  const int key_head = FAULT(attention_next_key_head) ? (w.key_head + 1) % a.key_heads : w.key_head;
  return ((std::size_t(row) * a.key_heads + key_head) * a.cache.slots + position % a.cache.slots) *
         a.head_dim;
}

/// Scores, maxima and weights of the piece's keys [first, first + count); ends with a barrier.
template <int most_dim>
DV_FN void weigh_keys(AttentionShared<most_dim>& s, const Attention& a, const Work& w, int first,
                      int count) {
  for (int i = threadIdx.x; i < w.heads * count; i += blockDim.x) {
    const int h = i / count, j = i % count;
    const float* q =
        a.query + (std::size_t(w.token) * a.query_heads + w.first_head + h) * a.head_dim;
    const float* k = a.cache.keys + cache_offset(a, w, first + j);
    float sum = 0.f;
    for (int d = 0; d < a.head_dim; ++d) sum = fmaf(q[d], k[d], sum);
    s.score[h][j] = sum;
  }
  if (!FAULT(attention_softmax_too_early)) __syncthreads();
  if (int(threadIdx.x) < w.heads) {
    float maximum = -INFINITY;
    for (int j = 0; j < count; ++j) maximum = fmaxf(maximum, s.score[threadIdx.x][j]);
    s.maximum[threadIdx.x] = maximum;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < w.heads * count; i += blockDim.x) {
    const int h = i / count, j = i % count;
    s.score[h][j] = dv::exp_exact(s.score[h][j] - s.maximum[h]);
  }
  if (!FAULT(attention_weighs_too_early)) __syncthreads();
}

template <int most_dim>
DV_FN float sum_of_weights(const AttentionShared<most_dim>& s, int head, int count) {
  float sum = 0.f;
  for (int j = 0; j < count; ++j) sum += s.score[head][j];
  return sum;
}

template <int most_dim>
DV_FN float weighted_value(const AttentionShared<most_dim>& s, const Attention& a, const Work& w,
                           int first, int count, int head, int d) {
  float sum = 0.f;
  for (int j = 0; j < count; ++j)
    sum = fmaf(s.score[head][j], a.cache.values[cache_offset(a, w, first + j) + d], sum);
  return sum;
}

/// Keys of a piece from `first` on. The last position may be that of int: its piece has no end
/// there.
DV_FN int keys_of_piece(const Work& w, int piece, int first) {
  const int begin = piece * kKeyPiece;
  return min(w.last - begin, kKeyPiece - 1) - (first - begin) + 1;
}

template <int most_dim>
DV_KERNEL(128, 1)
attention_loop_kernel(Attention a) {
  auto& s = dv::shared<AttentionShared<most_dim>>();
  const Work w = my_work(a);
  const int elements = w.heads * a.head_dim;
  if (int(threadIdx.x) < w.heads) s.state[threadIdx.x] = nothing_seen();
  for (int i = threadIdx.x; i < elements; i += blockDim.x)
    s.out[i / a.head_dim][i % a.head_dim] = 0.f;
  for (int piece = w.first_piece; piece <= w.last_piece; ++piece) {
    const int first = max(w.first, piece * kKeyPiece);
    const int count = keys_of_piece(w, piece, first);
    weigh_keys(s, a, w, first, count);
    if (int(threadIdx.x) < w.heads)
      s.scale[threadIdx.x] = merge_piece(s.state[threadIdx.x], s.maximum[threadIdx.x],
                                         sum_of_weights(s, threadIdx.x, count));
    if (!FAULT(attention_merges_too_early)) __syncthreads();
    for (int i = threadIdx.x; i < elements; i += blockDim.x) {
      const int h = i / a.head_dim, d = i % a.head_dim;
      s.out[h][d] =
          merge_value(s.out[h][d], weighted_value(s, a, w, first, count, h, d), s.scale[h]);
    }
    if (!FAULT(attention_overwrites_scores_too_early)) __syncthreads();
  }
  for (int i = threadIdx.x; i < elements; i += blockDim.x) {
    const int h = i / a.head_dim, d = i % a.head_dim;
    a.output[(std::size_t(w.token) * a.query_heads + w.first_head) * a.head_dim + i] =
        s.out[h][d] / s.state[h].sum;
  }
}

/// workspace[token, head, piece of the token, D + 2]; the last two are maximum and sum.
DV_FN float* piece_of(const Attention& a, int token, int head, int piece) {
  return a.workspace +
         ((std::size_t(token) * a.query_heads + head) * a.most_pieces + piece) * (a.head_dim + 2);
}

template <int most_dim>
DV_KERNEL(128, 1)
attention_piece_kernel(Attention a) {
  auto& s = dv::shared<AttentionShared<most_dim>>();
  const Work w = my_work(a);
  const int piece = w.first_piece + blockIdx.z;
  if (piece > w.last_piece) return;  // a whole block
  const int first = max(w.first, piece * kKeyPiece);
  const int count = keys_of_piece(w, piece, first);
  weigh_keys(s, a, w, first, count);
  if (int(threadIdx.x) < w.heads) {
    float* to = piece_of(a, w.token, w.first_head + threadIdx.x, blockIdx.z);
    to[a.head_dim] = s.maximum[threadIdx.x];
    to[a.head_dim + 1] = sum_of_weights(s, threadIdx.x, count);
  }
  for (int i = threadIdx.x; i < w.heads * a.head_dim; i += blockDim.x) {
    const int h = i / a.head_dim, d = i % a.head_dim;
    piece_of(a, w.token, w.first_head + h, blockIdx.z)[d] =
        weighted_value(s, a, w, first, count, h, d);
  }
}

DV_KERNEL(128, 1)
attention_merge_kernel(Attention a) {
  const Work w = my_work(a);
  const int elements = w.heads * a.head_dim;
  int pieces = w.last_piece - w.first_piece + 1;
  if (FAULT(attention_merges_unwritten_pieces)) pieces = a.most_pieces;
  for (int i = threadIdx.x; i < elements; i += blockDim.x) {
    const int h = w.first_head + i / a.head_dim, d = i % a.head_dim;
    RowState state = nothing_seen();
    float out = 0.f;
    for (int piece = 0; piece < pieces; ++piece) {
      const float* from = piece_of(a, w.token, h, piece);
      const MergeScale scale = merge_piece(state, from[a.head_dim], from[a.head_dim + 1]);
      out = merge_value(out, from[d], scale);
    }
    a.output[(std::size_t(w.token) * a.query_heads + h) * a.head_dim + d] = out / state.sum;
  }
}

int threads_for(const Attention& a) {
  const int heads = std::min(kHeads, a.query_heads / a.key_heads);
  const int work = std::max(heads * a.head_dim / 4, heads);
  int threads = 16;
  while (threads < work && threads < 128) threads *= 2;
  return threads;
}

template <int most_dim>
void launch_attention(const Attention& a, bool split) {
  const int group = a.query_heads / a.key_heads;
  const unsigned blocks = a.key_heads * ((group + kHeads - 1) / kHeads);
  const dim3 threads(threads_for(a));
  const std::size_t bytes = sizeof(AttentionShared<most_dim>);
  if (!split)
    return dv::launch(attention_loop_kernel<most_dim>,
                      {"attention_loop", dim3(a.tokens, blocks), threads, bytes}, a);
  dv::launch(attention_piece_kernel<most_dim>,
             {"attention_piece", dim3(a.tokens, blocks, a.most_pieces), threads, bytes}, a);
  dv::launch(attention_merge_kernel, {"attention_merge", dim3(a.tokens, blocks), threads}, a);
}

bool splits(const Attention& a) {
  const bool room =
      a.workspace_floats >= attention_workspace(a.tokens, a.query_heads, a.head_dim, a.most_pieces);
  const bool worth = a.form == AttentionForm::split || (a.tokens <= 8 && a.most_pieces > 1);
  return room && worth && a.form != AttentionForm::loop;
}

}  // namespace

std::size_t attention_workspace(int tokens, int query_heads, int head_dim, int most_pieces) {
  return std::size_t(tokens) * query_heads * most_pieces * (head_dim + 2);
}

void attend(const Attention& a) {
  if (a.head_dim > 512) throw std::runtime_error("attention: the head dimension is at most 512");
  if (a.query_heads % a.key_heads != 0)
    throw std::runtime_error("attention: key/value heads divide query heads");
  if (a.head_dim <= 32) return launch_attention<32>(a, splits(a));
  if (a.head_dim <= 256) return launch_attention<256>(a, splits(a));
  launch_attention<512>(a, splits(a));
}

}  // namespace kvconform::cuda::inline DV_MACHINE
