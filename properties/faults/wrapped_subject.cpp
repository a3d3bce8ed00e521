// Forwarding, and the books that go with it.
#include "properties/faults/wrapped_subject.h"

#include <algorithm>
#include <limits>

namespace kvconform {

auto WrappedSubject::book(SessionId session) -> Book& {
  const auto found = books_.find(session);
  if (found == books_.end()) {
    throw SubjectRefusal(SubjectRefusal::Kind::invalid,
                         "there is no session " + std::to_string(session));
  }
  return found->second;
}

Subject::SessionId WrappedSubject::keep(Book book) {
  books_.emplace(++next_, std::move(book));
  return next_;
}

void WrappedSubject::count(Book& book, const TokenRows& tokens, const TokenRows& inner_tokens) {
  for (std::size_t r = 0; r < book.lengths.size(); ++r) {
    std::vector<int>& inner = book.inner_lengths[r];
    inner.resize(std::size_t(book.lengths[r]) + 1);
    const int had = inner.back();
    for (std::size_t i = 1; i <= tokens[r].size(); ++i) inner.push_back(had + int(i));
    inner.back() = had + int(inner_tokens[r].size());
    book.lengths[r] += int(tokens[r].size());
  }
}

void WrappedSubject::check_extend(const Book& book, const TokenRows& tokens) const {
  const auto refuse = [](const char* why) {
    throw SubjectRefusal(SubjectRefusal::Kind::invalid, why);
  };
  if (tokens.size() != book.lengths.size()) refuse("a list of tokens for each row is needed");
  const int vocab = models_.at(book.model)->config().vocab_size;
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    if (book.lengths[r] + int(tokens[r].size()) > book.capacity) refuse("past the capacity");
    for (int id : tokens[r])
      if (id < 0 || id >= vocab) refuse("a token outside the vocabulary");
  }
}

Subject::ModelId WrappedSubject::load(const ModelSource& source) {
  const ModelId model = inner_->load(source);
  models_[model] = source.checkpoint();
  return model;
}

void WrappedSubject::unload(ModelId model) {
  std::erase_if(books_, [&](const auto& entry) { return entry.second.model == model; });
  models_.erase(model);
  inner_->unload(model);
}

Output WrappedSubject::score(ModelId model, const TokenRows& tokens, bool trace) {
  return inner_->score(model, tokens, trace);
}

Subject::SessionId WrappedSubject::open(ModelId model, int batch, int capacity, int start) {
  Book opened;
  opened.inner = inner_->open(model, batch, inner_capacity(capacity), start);
  opened.model = model;
  opened.batch = batch;
  opened.capacity = capacity;
  opened.start = start;
  opened.lengths.assign(std::size_t(batch), 0);
  opened.inner_lengths.assign(std::size_t(batch), {0});
  return keep(std::move(opened));
}

Output WrappedSubject::extend(SessionId session, const TokenRows& tokens, bool trace) {
  Book& of = book(session);
  Output output = inner_->extend(of.inner, tokens, trace);
  count(of, tokens, tokens);
  return output;
}

void WrappedSubject::rewind(SessionId session, const std::vector<int>& lengths) {
  Book& of = book(session);
  const bool known = lengths.size() == of.lengths.size() &&
                     std::equal(lengths.begin(), lengths.end(), of.lengths.begin(),
                                [](int to, int from) { return to >= 0 && to <= from; });
  std::vector<int> inner = lengths;
  for (std::size_t r = 0; known && r < lengths.size(); ++r)
    inner[r] = of.inner_lengths[r][std::size_t(lengths[r])];
  inner_->rewind(of.inner, inner);
  of.lengths = lengths;
}

Subject::SessionId WrappedSubject::fork(SessionId session) {
  Book copy = book(session);
  copy.inner = inner_->fork(copy.inner);
  return keep(std::move(copy));
}

void WrappedSubject::reorder(SessionId session, const std::vector<int>& rows) {
  Book& of = book(session);
  inner_->reorder(of.inner, rows);
  const Book before = of;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    of.lengths[r] = before.lengths[std::size_t(rows[r])];
    of.inner_lengths[r] = before.inner_lengths[std::size_t(rows[r])];
  }
}

void WrappedSubject::save(SessionId session, const std::filesystem::path& file) {
  const Book& of = book(session);
  inner_->save(of.inner, file);
  saved_[file] = of;
}

auto WrappedSubject::saved_as(const std::filesystem::path& file) const -> const Book* {
  const auto found = saved_.find(file);
  return found == saved_.end() ? nullptr : &found->second;
}

Subject::SessionId WrappedSubject::restore(ModelId model, const std::filesystem::path& file) {
  const SessionId restored = inner_->restore(model, file);
  const Book* saved = saved_as(file);
  Book copy = saved == nullptr ? Book{} : *saved;
  if (saved == nullptr) {  // written by another instance: lengths as the cache reports them
    copy.capacity = std::numeric_limits<int>::max() / 2;  // the inner one knows, and refuses
    copy.lengths = inner_->cache(restored).lengths;
    copy.batch = int(copy.lengths.size());
    copy.inner_lengths.assign(copy.lengths.size(), {});
    for (std::size_t r = 0; r < copy.lengths.size(); ++r)
      for (int n = 0; n <= copy.lengths[r]; ++n) copy.inner_lengths[r].push_back(n);
  }
  copy.inner = restored;
  copy.model = model;
  return keep(std::move(copy));
}

CacheReport WrappedSubject::cache(SessionId session) {
  const Book& of = book(session);
  CacheReport report = inner_->cache(of.inner);
  report.lengths = of.lengths;
  return report;
}

void WrappedSubject::close(SessionId session) {
  inner_->close(book(session).inner);
  forget(session);
}

namespace {

template <class Values>
void append_row(const Values& from, std::size_t width, int row, Values& to) {
  const auto begin = from.begin() + std::ptrdiff_t(width * std::size_t(row));
  to.insert(to.end(), begin, begin + std::ptrdiff_t(width));
}

}  // namespace

Output chosen_rows(const Output& output, const std::vector<int>& rows) {
  Output chosen;
  chosen.logits.positions = int(rows.size());
  chosen.logits.vocab = output.logits.vocab;
  for (int row : rows)
    append_row(output.logits.values, std::size_t(output.logits.vocab), row, chosen.logits.values);
  for (const TraceArray& array : output.trace) {
    TraceArray part{array.name, array.shape, {}};
    const auto all = std::size_t(array.shape[0]);
    part.shape[0] = std::int64_t(rows.size());
    for (int row : rows) append_row(array.values, array.values.size() / all, row, part.values);
    chosen.trace.push_back(std::move(part));
  }
  return chosen;
}

Output joined(Output first, const Output& second) {
  first.logits.positions += second.logits.positions;
  first.logits.vocab = second.logits.vocab;
  first.logits.values.insert(first.logits.values.end(), second.logits.values.begin(),
                             second.logits.values.end());
  for (std::size_t i = 0; i < std::min(first.trace.size(), second.trace.size()); ++i) {
    first.trace[i].shape[0] += second.trace[i].shape[0];
    first.trace[i].values.insert(first.trace[i].values.end(), second.trace[i].values.begin(),
                                 second.trace[i].values.end());
  }
  return first;
}

}  // namespace kvconform
