// Plugins are loaded, asked and judged like every subject; what they cannot do is not applicable,
// and what they break, a process of their own breaks with.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "properties/runner.h"
#include "properties/subject_registry.h"
#include "properties/temporary_folder.h"
#include "reference/error.h"

namespace kvconform {
namespace {

namespace fs = std::filesystem;

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

/// The toy, but for one word of its own: they are as long as each other.
std::string toy_with(const std::string& word, const std::string& other, const fs::path& folder) {
  std::ifstream stream(TOY_PLUGIN, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(stream)), {});
  bytes.replace(bytes.find(word), other.size(), other);
  std::ofstream(folder / "toy.so", std::ios::binary) << bytes;
  return "plugin:" + (folder / "toy.so").string();
}

TEST(Plugin, ThatNamesFamiliesOrCapabilitiesThereAreNotIsRefusedAtOnce) {
  const TemporaryFolder folder("kvconform-plugin-test");
  const PropertyResult family =
      run(toy_with("gemma3n_text", "llama_3_text", folder.path()), "causality");
  EXPECT_EQ(family.verdict, VerdictKind::broken);
  EXPECT_EQ(family.cases, 1);
  EXPECT_NE(family.message.find("\"families\" with \"llama_3_text\", not some of gemma3n_text, "
                                "gemma4_text; name those that your engine runs"),
            std::string::npos)
      << family.message;
  const PropertyResult capability =
      run(toy_with("score batch", "scorebbatch", folder.path()), "causality");
  EXPECT_NE(capability.message.find("\"capabilities\" with \"scorebbatch\""), std::string::npos)
      << capability.message;
}

TEST(Plugin, ThatIsNoneIsRefusedOrUnusable) {
  EXPECT_THROW(make_subject("plugin:/no/such/engine.so"), Error);
  const PropertyResult result = run(std::string("plugin:") + __FILE__, "agreement");
  EXPECT_EQ(result.verdict, VerdictKind::broken);
  EXPECT_NE(result.message.find("twice no proper answer to hello"), std::string::npos);
}

}  // namespace
}  // namespace kvconform
