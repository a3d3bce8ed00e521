// Through two loads a saved session goes to the load that did not save it; a subject whose files
// mean something in one load only is found out.
#include "properties/two_loads.h"

#include <gtest/gtest.h>

#include "properties/property.h"
#include "properties/subject_registry.h"
#include "properties/temporary_folder.h"

namespace kvconform {
namespace {

const TokenRows kPrompt = {{1, 2, 3, 4, 5}};

std::unique_ptr<ModelSource> some_model() {
  return make_model_source(all_properties()[0]->generate(1, 0, CaseSize::smoke).model);
}

/// Logits of one more token after a save and a restore, of `times` in a row.
std::vector<double> after_restore(Subject& subject, const ModelSource& source, int times) {
  const TemporaryFolder folder("kvconform-two-loads-test");
  const auto model = subject.load(source);
  auto session = subject.open(model, 1, 8, 0);
  subject.extend(session, kPrompt);
  for (int i = 0; i < times; ++i) {
    const auto file = folder.path() / std::to_string(i);
    subject.save(session, file);
    session = subject.restore(model, file);
  }
  const Output output = subject.extend(session, {{6}});
  subject.unload(model);
  return output.logits.values;
}

TEST(TwoLoads, AHealthySubjectGoesOnInEitherOfThem) {
  const auto source = some_model();
  const auto plain = make_subject("reference"), here = make_subject("reference"),
             there = make_subject("reference");
  const std::vector<double> expected = after_restore(*plain, *source, 1);
  TwoLoads same(*here, [&]() -> Subject& { return *here; });
  EXPECT_EQ(after_restore(same, *source, 1), expected);
  for (int times : {1, 2, 3}) {
    TwoLoads two(*here, [&]() -> Subject& { return *there; });
    EXPECT_EQ(after_restore(two, *source, times), expected) << times;
  }
}

TEST(TwoLoads, FilesThatMeanSomethingInOneLoadOnlyAreFoundOut) {
  const auto source = some_model();
  const auto subject = make_subject("fault:restore-by-page-table-of-load");
  const std::vector<double> right = after_restore(*subject, *source, 1);
  TwoLoads two(*subject, [&]() -> Subject& { return *subject; });
  EXPECT_NE(after_restore(two, *source, 1), right);
  EXPECT_NE(after_restore(two, *source, 2), right) << "and the first load reads the second's";
}

TEST(TwoLoads, AFileThatOnlyItsWriterCanReadIsRefusedByAnotherInstance) {
  const auto source = some_model();
  const auto here = make_subject("fault:saved-file-is-a-handle"),
             there = make_subject("fault:saved-file-is-a-handle");
  TwoLoads same(*here, [&]() -> Subject& { return *here; });
  EXPECT_NO_THROW(after_restore(same, *source, 1));
  TwoLoads two(*here, [&]() -> Subject& { return *there; });
  EXPECT_THROW(after_restore(two, *source, 1), SubjectRefusal);
}

TEST(TwoLoads, TheSecondLoadIsMadeForTheFirstRestore) {
  const auto source = some_model();
  const auto here = make_subject("reference");
  int asked = 0;
  TwoLoads two(*here, [&]() -> Subject& { return ++asked, *here; });
  const auto model = two.load(*source);
  two.extend(two.open(model, 1, 8, 0), kPrompt, false);
  EXPECT_EQ(asked, 0);
  after_restore(two, *source, 3);
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace kvconform
