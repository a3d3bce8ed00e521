// Reading calls, one entry after the other, while following what each session holds.
#include "golden/recipe_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "properties/history.h"
#include "reference/counted.h"
#include "reference/error.h"
#include "reference/random.h"

namespace kvconform {
namespace {

using nlohmann::json;
using Kind = Call::Kind;

constexpr std::pair<Kind, const char*> kVerbs[] = {
    {Kind::score, "score"},   {Kind::open, "open"},       {Kind::extend, "extend"},
    {Kind::rewind, "rewind"}, {Kind::reorder, "reorder"}, {Kind::fork, "fork"},
    {Kind::save, "save"},     {Kind::restore, "restore"}};

class CallReader {
 public:
  CallReader(std::string recipe, int vocab)
      : recipe_(std::move(recipe)), vocab_(vocab), stream_(stream_key(0, recipe_)) {}

  void read(const json& entry) {
    const json call = entry == "open" ? json{{"open", 1}} : entry;
    if (!call.is_object()) refuse(fmt::format("{} is no call", entry.dump()));
    const Kind kind = verb(call);
    add(make(kind, call.at(to_string(kind)), call.value("session", 0)));
  }

  std::vector<Call> finish() {
    for (Call& call : calls_) {
      if (call.kind == Kind::open) call.capacity = capacity_[call.session];
    }
    return std::move(calls_);
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const { refuse_recipe(recipe_, problem); }

  Kind verb(const json& call) const {
    std::vector<Kind> found;
    for (const auto& entry : call.items()) {
      const auto known = std::find_if(std::begin(kVerbs), std::end(kVerbs),
                                      [&](const auto& verb) { return entry.key() == verb.second; });
      if (known != std::end(kVerbs)) {
        found.push_back(known->first);
      } else if (entry.key() != "session") {
        refuse(fmt::format("unknown field {}", entry.key()));
      }
    }
    if (found.size() != 1) refuse(fmt::format("{} is not one call", call.dump()));
    return found[0];
  }

  Call make(Kind kind, const json& value, int label) {
    Call call;
    call.kind = kind;
    if (kind == Kind::score) {
      call.tokens = rows_of(value);
      return call;
    }
    if (kind == Kind::fork || kind == Kind::restore) call.from = session(kind, value.get<int>());
    const bool fresh = kind == Kind::open || kind == Kind::fork || kind == Kind::restore;
    call.session = fresh ? sessions_[label] = next_session_++ : session(kind, label);
    if (kind == Kind::open) call.batch = value;
    if (kind == Kind::save) saved_.insert(call.session);
    if (kind == Kind::restore && !saved_.count(call.from)) {
      refuse(fmt::format("session {} was never saved", value.get<int>()));
    }
    if (kind == Kind::extend) call.tokens = rows_of(value);
    if (kind == Kind::rewind || kind == Kind::reorder) {
      call.numbers = value.is_array() ? value.get<std::vector<int>>() : std::vector<int>{value};
    }
    return call;
  }

  /// The session that a recipe's label means by now.
  int session(Kind kind, int label) const {
    const auto found = sessions_.find(label);
    if (found == sessions_.end()) {
      refuse(fmt::format("{} before open of session {}", to_string(kind), label));
    }
    return found->second;
  }

  /// A count draws one row; a list of numbers is one row; a list of lists is several; {"draw":
  /// [counts]} draws several.
  TokenRows rows_of(const json& value) {
    if (value.is_number()) return {draw(value, 1)};
    if (value.is_object()) {
      if (!value.contains("draw") || value.size() != 1) refuse(value.dump() + " are no tokens");
      TokenRows rows;
      for (const json& count : value.at("draw")) rows.push_back(draw(count, 0));
      return rows;
    }
    if (!value.empty() && value.front().is_array()) return value.get<TokenRows>();
    return {value.get<std::vector<int>>()};
  }

  std::vector<int> draw(int count, int least) {
    if (count < least) refuse("cannot draw " + counted(count, "token"));
    std::vector<int> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(int(stream_.below(std::uint64_t(vocab_))));
    return tokens;
  }

  /// Follows what each session holds; what makes no sense is refused here.
  void add(const Call& call) {
    try {
      for (const RowSpan& span : ledger_.apply(call)) {
        if (call.kind != Kind::extend) continue;
        int& capacity = capacity_[root_[call.session]];
        capacity = std::max(capacity, int(span.history.tokens.size()));
      }
    } catch (const Error& e) {
      refuse(e.problem());
    }
    if (call.kind == Kind::open) root_[call.session] = call.session;
    if (call.kind == Kind::fork || call.kind == Kind::restore) {
      root_[call.session] = root_[call.from];
    }
    calls_.push_back(call);
  }

  std::string recipe_;
  int vocab_;
  RandomStream stream_;
  int next_session_ = 0;
  std::set<int> saved_;
  std::map<int, int> sessions_;  ///< the number behind each label
  std::map<int, int> root_;      ///< the open that a session descends from
  std::map<int, int> capacity_;  ///< of each open: the longest row of all its descendants
  RowLedger ledger_;
  std::vector<Call> calls_;
};

}  // namespace

void refuse_recipe(const std::string& recipe, const std::string& problem) {
  throw Error("KV3005", fmt::format("recipe {}: {}", recipe, problem),
              "correct golden/recipes.json; golden/README.md lists the fields");
}

std::vector<Call> parse_calls(const std::string& recipe, const json& calls, int vocab) {
  CallReader reader(recipe, vocab);
  for (const json& call : calls) reader.read(call);
  std::vector<Call> all = reader.finish();
  if (all.empty()) refuse_recipe(recipe, "no calls");
  return all;
}

}  // namespace kvconform
