// Simplifications of calls, and putting both kinds together. Those of models: model_shrinking.cpp.
#include "properties/shrinking.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "properties/history.h"
#include "properties/model_shrinking.h"
#include "reference/error.h"

namespace kvconform {
namespace {

using Calls = std::vector<Call>;

bool feeds(const Call& call) {
  return call.kind == Call::Kind::extend || call.kind == Call::Kind::score;
}

bool makes_sense(const Calls& calls) {
  std::map<int, int> open, saved;  // tokens are checked by the ledger, sessions here
  RowLedger ledger;
  bool asks = false;
  try {
    for (const Call& call : calls) {
      const bool derives = call.kind == Call::Kind::fork || call.kind == Call::Kind::restore;
      if (call.kind == Call::Kind::fork && !open.count(call.from)) return false;
      if (call.kind == Call::Kind::restore && !saved.count(call.from)) return false;
      if (!derives && call.kind != Call::Kind::open && call.kind != Call::Kind::score &&
          !open.count(call.session)) {
        return false;
      }
      if (call.kind == Call::Kind::save) saved[call.session] = 1;
      if (call.kind == Call::Kind::close) open.erase(call.session);
      if (derives || call.kind == Call::Kind::open) open[call.session] = 1;
      for (const RowSpan& span : ledger.apply(call)) asks |= span.count() > 0;
    }
  } catch (const Error&) {
    return false;
  }
  return asks;
}

class CallSimplifier {
 public:
  explicit CallSimplifier(const Calls& calls) : calls_(calls) {}

  std::vector<Calls> all() {
    keep_up_to();
    for (std::size_t i = 0; i < calls_.size(); ++i) drop(i);
    for (std::size_t i = 0; i < calls_.size(); ++i) merge_with_next(i);
    one_row_only();
    halve_tokens();
    for (std::size_t i = 0; i < calls_.size(); ++i) shorten(i);
    zero_tokens();
    return std::move(found_);
  }

 private:
  void offer(Calls calls) {
    if (calls != calls_ && makes_sense(calls)) found_.push_back(std::move(calls));
  }

  void keep_up_to() {
    for (std::size_t end = calls_.size() / 2; end > 0 && end < calls_.size();
         end += (calls_.size() - end + 1) / 2) {
      offer(Calls(calls_.begin(), calls_.begin() + end));
      if (end + 1 == calls_.size()) break;
    }
  }

  void drop(std::size_t i) {
    Calls fewer = calls_;
    fewer.erase(fewer.begin() + i);
    offer(fewer);
    const Call& call = calls_[i];
    if (call.kind != Call::Kind::fork && call.kind != Call::Kind::restore) return;
    for (Call& later : fewer) {  // a copy gone: its calls go to the session it was taken from
      if (later.session == call.session && &later >= &fewer[0] + i) later.session = call.from;
      if (later.from == call.session) later.from = call.from;
    }
    offer(fewer);
  }

  void merge_with_next(std::size_t i) {
    if (i + 1 >= calls_.size()) return;
    const Call &a = calls_[i], &b = calls_[i + 1];
    if (a.kind != Call::Kind::extend || b.kind != Call::Kind::extend || a.session != b.session ||
        a.tokens.size() != b.tokens.size()) {
      return;
    }
    Calls merged = calls_;
    for (std::size_t r = 0; r < b.tokens.size(); ++r) {
      merged[i].tokens[r].insert(merged[i].tokens[r].end(), b.tokens[r].begin(), b.tokens[r].end());
    }
    merged.erase(merged.begin() + i + 1);
    offer(merged);
  }

  /// Row r of every session alone. Reorders fall away with the other rows.
  void one_row_only() {
    int rows = 0;
    for (const Call& call : calls_) rows = std::max<int>(rows, call.tokens.size());
    for (int r = 0; r < rows && rows > 1; ++r) {
      Calls single;
      for (Call call : calls_) {
        if (call.kind == Call::Kind::reorder) continue;
        if (call.kind == Call::Kind::open) call.batch = 1;
        if (feeds(call) && r < static_cast<int>(call.tokens.size())) call.tokens = {call.tokens[r]};
        if (call.kind == Call::Kind::rewind && r < static_cast<int>(call.numbers.size())) {
          call.numbers = {call.numbers[r]};
        }
        single.push_back(call);
      }
      offer(single);
    }
  }

  void halve_tokens() {
    Calls shorter = calls_;
    for (Call& call : shorter) {
      for (auto& row : call.tokens) row.resize((row.size() + 1) / 2);
    }
    offer(shorter);
  }

  void shorten(std::size_t i) {
    for (std::size_t r = 0; r < calls_[i].tokens.size(); ++r) {
      const std::size_t length = calls_[i].tokens[r].size();
      for (std::size_t cut : {length, length / 2, std::size_t{1}}) {
        if (cut == 0 || cut > length) continue;
        Calls shorter = calls_;
        shorter[i].tokens[r].resize(length - cut);
        offer(shorter);
        if (cut == length) continue;
        Calls later = calls_;  // the same, cut at the front
        auto& row = later[i].tokens[r];
        row.erase(row.begin(), row.begin() + cut);
        offer(later);
      }
    }
  }

  void zero_tokens() {
    Calls zeros = calls_;
    for (Call& call : zeros) {
      for (auto& row : call.tokens) std::fill(row.begin(), row.end(), 0);
    }
    offer(zeros);
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      Calls plain = calls_;
      for (auto& row : plain[i].tokens) std::fill(row.begin(), row.end(), 1);
      if (calls_[i].tokens != zeros[i].tokens) offer(plain);
    }
  }

  const Calls& calls_;
  std::vector<Calls> found_;
};

/// No token outside a smaller vocabulary.
int largest_token(const Case& test_case) {
  int largest = 0;
  for (const Call& call : test_case.calls) {
    for (const auto& row : call.tokens) {
      for (int token : row) largest = std::max(largest, token);
    }
  }
  return largest;
}

}  // namespace

std::vector<Case> simpler_cases(const Case& test_case) {
  std::vector<Case> simpler;
  const auto with_model = [&](ModelSpec model) {
    Case c = test_case;
    c.model = std::move(model);
    simpler.push_back(std::move(c));
  };
  const std::vector<ModelSpec> models = simpler_models(test_case.model, largest_token(test_case));
  for (const ModelSpec& model : models) with_model(model);
  for (Calls& calls : CallSimplifier(test_case.calls).all()) {
    Case c = test_case;
    c.calls = std::move(calls);
    simpler.push_back(std::move(c));
  }
  return simpler;
}

CaseExtent extent_of(const Case& test_case) {
  CaseExtent extent;
  extent.layers = config_of(test_case.model).num_layers;
  extent.calls = static_cast<int>(test_case.calls.size());
  for (const Call& call : test_case.calls) {
    for (const auto& row : call.tokens) extent.prompt += static_cast<int>(row.size());
  }
  return extent;
}

}  // namespace kvconform
