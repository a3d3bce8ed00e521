// Plugins are loaded, asked and judged like every subject; what they cannot do is not applicable,
// and what they break, a process of their own breaks with.
#include <gtest/gtest.h>

#include <cstdlib>

#include "properties/runner.h"
#include "properties/subject_registry.h"
#include "reference/error.h"

namespace kvconform {
namespace {

const std::string kToy = std::string("plugin:") + TOY_PLUGIN;
const std::string kSessions = std::string("plugin:") + SESSIONS_PLUGIN;

PropertyResult run(const std::string& subject, const std::string& property) {
  RunOptions options;
  options.subjects = {subject};
  options.properties = {property};
  options.cases = 20;
  options.size = CaseSize::smoke;
  options.jobs = 1;
  options.shrink_seconds = 1;
  return run_properties(options).results.at(0);
}

TEST(Plugin, InCScoresAndOffersNothingElse) {
  EXPECT_EQ(run(kToy, "causality").verdict, VerdictKind::conforms);
  const PropertyResult chunking = run(kToy, "chunking");
  EXPECT_EQ(chunking.verdict, VerdictKind::not_applicable);
  EXPECT_EQ(chunking.message, "the subject lacks cache, chunked");
}

TEST(Plugin, ThatIsNotTheModelDiffersFromIt) {
  const PropertyResult agreement = run(kToy, "agreement");
  EXPECT_EQ(agreement.verdict, VerdictKind::differs);
  ASSERT_TRUE(agreement.failure);
  EXPECT_EQ(agreement.failure->smallest.calls.size(), 1u);
}

TEST(Plugin, InCppKeepsItsSessionsApart) {
  for (const char* property :
       {"cache-independence", "prefill-equals-decode", "chunking", "batch-rows", "rollback",
        "fork-and-reorder", "save-and-restore", "determinism", "errors-not-silence"}) {
    const PropertyResult result = run(kSessions, property);
    EXPECT_EQ(result.verdict, VerdictKind::conforms) << property << ": " << result.message;
  }
  EXPECT_EQ(run(kSessions, "memory-accounting").verdict, VerdictKind::not_applicable);
}

TEST(Plugin, ThatCrashesIsBrokenAndTheRunGoesOn) {
  setenv("SESSIONS_PLUGIN_CRASH", "1", 1);
  const PropertyResult result = run(kSessions, "determinism");
  unsetenv("SESSIONS_PLUGIN_CRASH");
  EXPECT_EQ(result.verdict, VerdictKind::broken);
  EXPECT_EQ(result.cases, 20);
  EXPECT_NE(result.message.find("was ended by signal 6"), std::string::npos) << result.message;
}

TEST(Plugin, ThatIsNoneIsRefusedOrUnusable) {
  EXPECT_THROW(make_subject("plugin:/no/such/engine.so"), Error);
  const PropertyResult result = run(std::string("plugin:") + __FILE__, "agreement");
  EXPECT_EQ(result.verdict, VerdictKind::broken);
  EXPECT_NE(result.message.find("twice no proper answer to hello"), std::string::npos);
}

}  // namespace
}  // namespace kvconform
