// What stands behind each position. A case's calls take rows through extend, rewind, fork, reorder,
// save and restore; whatever happened on the way, the logits of a position may depend on nothing
// but the tokens of its row up to it. Here the calls are run on a subject while each row's tokens
// are kept, so that every equivalence property can ask: what would these tokens alone have given?
//
//   Transcript seen = run_calls(subject, model, test_case.calls, vocab, /*trace=*/false);
//   for (const CallRecord& record : seen)
//     for (const RowSpan& span : record.rows) …  // span.tokens[span.first…] are the new positions
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "properties/case.h"
#include "properties/subject.h"

namespace kvconform {

/// Tokens of one row from its first one, which stands at position `start`.
struct TokenHistory {
  std::vector<int> tokens;
  int start = 0;
  std::vector<int> ends =
      {};  ///< lengths at which a call ended: how the tokens came, not what they are
  bool operator==(const TokenHistory& other) const {
    return start == other.start && tokens == other.tokens;
  }
  void take(const std::vector<int>& more);
  void cut(int length);
  bool is_prefix_of(const TokenHistory& other) const;
};

/// Does it matter in which calls the tokens of a row came?
enum class Chunks { any, same };

/// What was computed for `longer`, position by position, says what is due for `history`: its tokens
/// are the beginning of those (all of them where later tokens have a say), and with Chunks::same
/// its calls ended where those did.
bool covers(const TokenHistory& longer, const TokenHistory& history, bool causal, Chunks chunks);

/// New positions of one row in one call: tokens[first], …, the last one.
struct RowSpan {
  int row = 0;
  TokenHistory history;
  int first = 0;
  int count() const { return static_cast<int>(history.tokens.size()) - first; }
};

/// The rows of every session of a case, moved on call by call without any subject.
class RowLedger {
 public:
  /// Rows with their new positions, for score and extend; empty for the others. Throws Error KV2005
  /// where the call makes no sense (a rewind forwards, a row that does not exist, …).
  std::vector<RowSpan> apply(const Call& call);

 private:
  using Rows = std::vector<TokenHistory>;
  Rows& session(int number);
  std::map<int, Rows> open_, saved_;
};

/// One score or extend of a case and what came back, positions row by row.
struct CallRecord {
  int call = 0;  ///< index in the case
  std::vector<RowSpan> rows;
  Output output;
};
using Transcript = std::vector<CallRecord>;

/// Throws SubjectBroken if an answer has not the promised shape.
void check_shape(const CallRecord& record, int vocab_size, bool trace);

class TemporaryFolder;

/// Hands calls to a subject: knows the sessions behind the numbers of a case, and the files of the
/// saved ones.
class CallRunner {
 public:
  CallRunner(Subject& subject, Subject::ModelId model);
  ~CallRunner();
  CallRunner(const CallRunner&) = delete;
  CallRunner& operator=(const CallRunner&) = delete;

  /// Runs the next call of the case: an empty output for calls that give no logits.
  Output run(const Call& call, bool trace);
  Subject::SessionId id(int session) const { return open_.at(session); }

 private:
  Output ask(const Call& call, bool trace);
  std::filesystem::path file(int session);

  Subject& subject_;
  Subject::ModelId model_;
  int next_ = 0;  ///< index of the next call
  std::map<int, Subject::SessionId> open_;
  std::unique_ptr<TemporaryFolder> folder_;
};

/// Runs the calls. Throws SubjectBroken if an answer has not the promised shape, and whatever the
/// subject throws.
Transcript run_calls(Subject& subject, Subject::ModelId model, const std::vector<Call>& calls,
                     int vocab_size, bool trace);

/// The histories that the calls end up with: what an oracle has to compute to know every position.
/// For causal models without those that are the beginning of another one.
std::vector<TokenHistory> longest_histories(const std::vector<Call>& calls, bool causal = true,
                                            Chunks chunks = Chunks::any);

}  // namespace kvconform
