// Faults of engines that pad: pads that are seen, stored or left to be 0/0.
#include <algorithm>
#include <limits>

#include "properties/faults/wrapped_subject.h"

namespace kvconform {
namespace {

constexpr int kPad = 0;       // the token that stands for nothing
constexpr int kMultiple = 4;  // prompts are padded to a multiple of this

std::size_t longest(const TokenRows& rows) {
  std::size_t most = 0;
  for (const auto& row : rows) most = std::max(most, row.size());
  return most;
}

/// Every row padded to `width`, and where the real tokens went in the output.
struct Padded {
  TokenRows rows;
  std::vector<int> real;
};

Padded padded_left(const TokenRows& rows, std::size_t width) {
  Padded padded;
  int index = 0;
  for (const auto& row : rows) {
    std::vector<int> wide(width - row.size(), kPad);
    index += int(wide.size());
    for (std::size_t i = 0; i < row.size(); ++i) padded.real.push_back(index++);
    wide.insert(wide.end(), row.begin(), row.end());
    padded.rows.push_back(std::move(wide));
  }
  return padded;
}

Padded padded_right(const TokenRows& rows, std::size_t width) {
  Padded padded;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < rows[r].size(); ++i) padded.real.push_back(int(r * width + i));
    padded.rows.push_back(rows[r]);
    padded.rows.back().resize(width, kPad);
  }
  return padded;
}

class LeftPads : public WrappedSubject {
 public:
  LeftPads(std::unique_ptr<Subject> inner, bool single_rows)
      : WrappedSubject(std::move(inner)), single_rows_(single_rows) {}

  Output score(ModelId model, const TokenRows& tokens, bool trace) override {
    std::size_t width = longest(tokens);
    if (single_rows_) {
      if (tokens.size() != 1) return inner().score(model, tokens, trace);
      width = (width + kMultiple - 1) / kMultiple * kMultiple;
    }
    const Padded padded = padded_left(tokens, width);
    inner().score(model, tokens, false);  // refuses what must be refused
    return chosen_rows(inner().score(model, padded.rows, trace), padded.real);
  }

 private:
  const bool single_rows_;  // else: batches of unequal rows
};

class PaddedRowsVanish : public WrappedSubject {
 public:
  using WrappedSubject::WrappedSubject;
  Output score(ModelId model, const TokenRows& tokens, bool trace) override {
    Output output = inner().score(model, tokens, trace);
    std::size_t position = 0;
    for (const auto& row : tokens) {
      const bool pads = row.size() < longest(tokens);
      const auto begin = output.logits.values.begin() +
                         std::ptrdiff_t(position * std::size_t(output.logits.vocab));
      const auto width = std::ptrdiff_t(row.size() * std::size_t(output.logits.vocab));
      if (pads) std::fill(begin, begin + width, std::numeric_limits<double>::quiet_NaN());
      position += row.size();
    }
    return output;
  }
};

class StoredPads : public WrappedSubject {
 public:
  using WrappedSubject::WrappedSubject;
  Output extend(SessionId session, const TokenRows& tokens, bool trace) override {
    Book& of = book(session);
    check_extend(of, tokens);
    const Padded padded = padded_right(tokens, longest(tokens));
    const Output output = inner().extend(of.inner, padded.rows, trace);
    count(of, tokens, padded.rows);
    return chosen_rows(output, padded.real);
  }

 protected:
  int inner_capacity(int capacity) const override { return 16 * capacity + 64; }
};

}  // namespace

std::unique_ptr<Subject> left_pads_attended(std::unique_ptr<Subject> inner) {
  return std::make_unique<LeftPads>(std::move(inner), false);
}
std::unique_ptr<Subject> pad_mask_skipped_for_one_row(std::unique_ptr<Subject> inner) {
  return std::make_unique<LeftPads>(std::move(inner), true);
}
std::unique_ptr<Subject> padded_rows_give_nan(std::unique_ptr<Subject> inner) {
  return std::make_unique<PaddedRowsVanish>(std::move(inner));
}
std::unique_ptr<Subject> pads_stored(std::unique_ptr<Subject> inner) {
  return std::make_unique<StoredPads>(std::move(inner));
}

}  // namespace kvconform
