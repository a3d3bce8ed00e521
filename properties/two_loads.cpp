// Forwarding, each session to its load.
#include "properties/two_loads.h"

namespace kvconform {

Subject::ModelId TwoLoads::load(const ModelSource& source) {
  const ModelId id = here_.load(source);
  models_[++next_] = {&source, {&here_, id}, {}};
  return next_;
}

void TwoLoads::unload(ModelId model) {
  const Model gone = models_.at(model);
  models_.erase(model);
  std::erase_if(sessions_, [&](const auto& entry) { return entry.second.model == model; });
  if (gone.there.subject != nullptr) gone.there.subject->unload(gone.there.id);
  here_.unload(gone.here.id);
}

Output TwoLoads::score(ModelId model, const TokenRows& tokens, bool trace) {
  return here_.score(models_.at(model).here.id, tokens, trace);
}

Subject::SessionId TwoLoads::open(ModelId model, int batch, int capacity, int start) {
  return keep({model, false, here_.open(models_.at(model).here.id, batch, capacity, start)});
}

Output TwoLoads::extend(SessionId session, const TokenRows& tokens, bool trace) {
  return subject_of(at(session)).extend(at(session).id, tokens, trace);
}

void TwoLoads::rewind(SessionId session, const std::vector<int>& lengths) {
  subject_of(at(session)).rewind(at(session).id, lengths);
}

Subject::SessionId TwoLoads::fork(SessionId session) {
  Session copy = at(session);
  copy.id = subject_of(copy).fork(copy.id);
  return keep(copy);
}

void TwoLoads::reorder(SessionId session, const std::vector<int>& rows) {
  subject_of(at(session)).reorder(at(session).id, rows);
}

void TwoLoads::save(SessionId session, const std::filesystem::path& file) {
  subject_of(at(session)).save(at(session).id, file);
  saved_there_[file] = at(session).is_there;
}

Subject::SessionId TwoLoads::restore(ModelId model, const std::filesystem::path& file) {
  const bool there = !saved_there_[file];
  const Load& load = load_of(model, there);
  return keep({model, there, load.subject->restore(load.id, file)});
}

CacheReport TwoLoads::cache(SessionId session) {
  return subject_of(at(session)).cache(at(session).id);
}

void TwoLoads::close(SessionId session) {
  const Session gone = at(session);
  sessions_.erase(session);
  subject_of(gone).close(gone.id);
}

auto TwoLoads::load_of(ModelId model, bool there) -> Load& {
  Model& of = models_.at(model);
  if (!there) return of.here;
  if (of.there.subject == nullptr) {
    Subject& subject = there_();
    of.there = {&subject, subject.load(*of.source)};
  }
  return of.there;
}

Subject& TwoLoads::subject_of(const Session& session) {
  return *load_of(session.model, session.is_there).subject;
}

auto TwoLoads::at(SessionId session) const -> const Session& {
  const auto found = sessions_.find(session);
  if (found == sessions_.end())
    throw SubjectRefusal(SubjectRefusal::Kind::invalid,
                         "there is no session " + std::to_string(session));
  return found->second;
}

Subject::SessionId TwoLoads::keep(Session session) {
  sessions_.emplace(++next_, session);
  return next_;
}

}  // namespace kvconform
