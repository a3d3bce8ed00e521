// Subjects in other processes: the healthy one is as good as in this process, and whatever a broken
// one does costs its case, is named, and leaves neither a process nor a file behind.
#include "properties/subjects/process_subject.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "properties/case_judge.h"
#include "properties/history.h"
#include "properties/replay.h"
#include "properties/requirements.h"
#include "properties/runner.h"
#include "properties/shrinking.h"
#include "properties/temporary_folder.h"
#include "reference/error.h"

namespace kvconform {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Running processes that were started with `marker` in their environment, their own children
/// included. (The environment of this very process is read as it was when it started.)
int processes_of(const std::string& marker) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    if (!std::isdigit(static_cast<unsigned char>(entry.path().filename().string()[0]))) continue;
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    const std::string variables((std::istreambuf_iterator<char>(file)), {});
    count += variables.find(marker) != std::string::npos;
  }
  return count;
}

/// Waits for what the system may still be doing: a killed grandchild is not ours to wait for.
bool comes_to(bool any, const std::string& marker) {
  const auto begin = Clock::now();
  while ((processes_of(marker) > 0) != any) {
    if (seconds_since(begin) > 10) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

/// Each test has a temporary folder of its own as TMPDIR; which marks the test's processes too.
class Processes : public testing::Test {
 protected:
  Processes() {
    if (const char* before = std::getenv("TMPDIR")) before_ = before;
    setenv("TMPDIR", folder_.path().c_str(), 1);
  }
  ~Processes() override {
    EXPECT_TRUE(comes_to(false, folder_.path().string())) << "a process was left behind";
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      EXPECT_THAT(entry.path().filename().string(), testing::StartsWith("kvconform-failures"))
          << "a temporary file was left behind";
    }
    before_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before_.c_str(), 1);
  }

  std::string server(const std::string& manner, const std::string& subject = "reference") const {
    return fmt::format("exec {} {} {} {}", SUBJECT_SERVER, subject, manner,
                       folder_.path().string() + "/mark");
  }
  fs::path mark() const { return folder_.path() / "mark"; }

  static Case a_case(int index = 0) {
    return find_property("cache-independence")
        .generate(5, static_cast<std::uint64_t>(index), CaseSize::smoke);
  }

  RunOptions run_of(const std::string& command, std::int64_t cases = 6) const {
    RunOptions options;
    options.subjects = {"process:" + command};
    options.properties = {"cache-independence"};
    options.cases = cases;
    options.size = CaseSize::smoke;
    options.jobs = 1;
    options.timeout = 3;
    options.shrink_seconds = 0.2;
    return options;
  }

 private:
  TemporaryFolder folder_{"kvconform-process-test"};
  std::string before_;
};

TEST_F(Processes, AServedReferenceGivesTheBitsOfTheReferenceItself) {
  ProcessSubject served(server("healthy"), {});
  const auto reference = make_subject("reference");
  EXPECT_EQ(served.info().capabilities, reference->info().capabilities);
  EXPECT_EQ(served.info().margin, reference->info().margin);
  EXPECT_EQ(served.info().granularity, reference->info().granularity);
  for (int i = 0; i < 12; ++i) {
    const Case test_case = a_case(i);
    const auto source = make_model_source(test_case.model);
    const int vocab = config_of(test_case.model).vocab_size;
    const auto here = reference->load(*source), there = served.load(*source);
    const Transcript expected = run_calls(*reference, here, test_case.calls, vocab, true);
    const Transcript seen = run_calls(served, there, test_case.calls, vocab, true);
    ASSERT_EQ(expected.size(), seen.size());
    for (std::size_t k = 0; k < seen.size(); ++k) {
      EXPECT_EQ(expected[k].output.logits.values, seen[k].output.logits.values);
      ASSERT_EQ(expected[k].output.trace.size(), seen[k].output.trace.size());
      for (std::size_t a = 0; a < seen[k].output.trace.size(); ++a) {
        EXPECT_EQ(expected[k].output.trace[a].name, seen[k].output.trace[a].name);
        EXPECT_EQ(expected[k].output.trace[a].values, seen[k].output.trace[a].values);
      }
    }
    served.unload(there);
  }
}

TEST_F(Processes, EveryRequestGoesThroughAndRefusalsChangeNothing) {
  ProcessSubject subject(server("healthy"), {});
  const auto source = make_model_source(a_case().model);
  const auto model = subject.load(*source);
  const auto session = subject.open(model, 2, 8, 0);
  subject.extend(session, {{1, 2, 3}, {4}}, false);
  EXPECT_THROW(subject.extend(session, {{1}}, false), SubjectRefusal);
  EXPECT_EQ(subject.cache(session).lengths, (std::vector<int>{3, 1}));
  subject.reorder(session, {1, 0});
  EXPECT_EQ(subject.cache(session).lengths, (std::vector<int>{1, 3}));
  const auto copy = subject.fork(session);
  subject.rewind(session, {0, 2});
  EXPECT_EQ(subject.cache(session).lengths, (std::vector<int>{0, 2}));
  EXPECT_EQ(subject.cache(copy).lengths, (std::vector<int>{1, 3}));
  {
    const TemporaryFolder folder("kvconform-saved");
    subject.save(copy, folder.path() / "session");
    const auto again = subject.restore(model, folder.path() / "session");
    EXPECT_EQ(subject.cache(again).lengths, (std::vector<int>{1, 3}));
    EXPECT_THROW(subject.restore(model, folder.path() / "missing"), SubjectRefusal);
  }
  EXPECT_EQ(subject.extend(session, {{}, {}}, false).logits.positions, 0);
  subject.close(session);
  EXPECT_THROW(subject.cache(session), SubjectRefusal);
  subject.unload(model);
  EXPECT_THROW(subject.score(model, {{1}}, false), SubjectRefusal);
}

struct BadManner {
  const char *manner, *words;
};

class EachBadManner : public Processes, public testing::WithParamInterface<BadManner> {};

TEST_P(EachBadManner, IsNamedAndEndsWithItsCase) {
  const auto begin = Clock::now();
  SubjectOptions options;
  options.timeout = 1.5;
  ProcessSubject subject(server(GetParam().manner), options);
  const auto source = make_model_source(a_case().model);
  try {
    const auto model = subject.load(*source);
    subject.extend(subject.open(model, 1, 4, 0), {{1, 2}}, false);
    subject.extend(subject.open(model, 1, 4, 0), {{1, 2}}, false);
    FAIL() << "nothing was said against it";
  } catch (const SubjectUnusable& e) {
    FAIL() << e.what();
  } catch (const SubjectBroken& e) {
    EXPECT_THAT(e.what(), HasSubstr(GetParam().words));
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    EXPECT_LT(std::string(e.what()).size(), 1500u);
  }
  EXPECT_LT(seconds_since(begin), 20);
  EXPECT_EQ(subject.info().name, "reference");
}

INSTANTIATE_TEST_SUITE_P(
    Processes, EachBadManner,
    testing::Values(
        BadManner{"hang", "gave no complete answer in time when asked for extend (limit 1.5 s)"},
        BadManner{"hang-ignoring-sigterm", "gave no complete answer in time"},
        BadManner{"half-a-message",
                  "(limit 1.5 s); 9 bytes without a line end had arrived: \"{\"ok\": tr\""},
        BadManner{"half-a-payload", "exited with status 7 in the middle of a message"},
        BadManner{"payload-too-large", "announces a payload of 99999999 bytes, expected "},
        BadManner{"payload-too-small", "announces a payload of "},
        BadManner{"more-than-a-reply", "had written more than its last reply"},
        BadManner{"close-stdout", "closed its standard output and goes on running"},
        BadManner{"leave-a-grandchild", "exited with status 3 when asked for extend"},
        BadManner{"flood-standard-error", "noise of the engine, line 19999"},
        BadManner{"error-failed", "answered extend with \"failed\": on purpose"},
        BadManner{"error-of-no-kind", "has the field \"kind\" with \"sad\""},
        BadManner{"no-model", "its reply to load lacks the field \"model\""},
        BadManner{"model-is-a-list", "its reply to load has the field \"model\" with [1]"}),
    [](const auto& at) {
      std::string name = at.param.manner;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST_F(Processes, ASignalIsNamed) {
  ProcessSubject subject("kill -SEGV $$", {});
  try {
    subject.info();
    FAIL();
  } catch (const SubjectUnusable& e) {
    EXPECT_THAT(e.what(), HasSubstr("was ended by signal 11 (SIGSEGV) when asked for hello"));
  }
}

TEST_F(Processes, ARunGoesOnAfterEachCrash) {
  const RunSummary summary = run_properties(run_of(server("crash-in-every-third-case"), 9));
  const PropertyResult& result = summary.results.at(0);
  EXPECT_EQ(result.cases, 9);
  // The case that the study runs again does not crash in a fresh process: flaky, as it is.
  VerdictCounts counts = result.counts;
  EXPECT_EQ(counts[VerdictKind::broken], 2);
  EXPECT_EQ(counts[VerdictKind::flaky], 1);
  EXPECT_EQ(counts[VerdictKind::conforms], 6);
  EXPECT_THAT(result.message, HasSubstr("was ended by signal 6 (SIGABRT)"));
  EXPECT_EQ(exit_code(summary), 4);
}

/// A case that scores only; what explains its failure opens sessions, and that kills the process.
TEST_F(Processes, ABreakdownWhileAFailureIsExplainedLeavesTheFailureStanding) {
  const std::string wrong = "fault:scores-scaled";
  RunOptions options = run_of(server("exit-on-open-after-score", wrong), 24);
  options.subjects.push_back("reference");
  options.properties = {"agreement", "rotary-convention"};
  const RunSummary summary = run_properties(options);
  ASSERT_EQ(summary.results.size(), 4u);  // the run went on, also with the other subject
  VerdictCounts counts = summary.results[0].counts;
  EXPECT_GT(counts[VerdictKind::differs], 0);
  EXPECT_EQ(summary.results[0].cases, 24);
  ASSERT_TRUE(summary.results[0].failure);
  // A case that only opens breaks nothing in a fresh process, where the study runs it.
  EXPECT_THAT(summary.results[0].failure->verdict.kind,
              testing::AnyOf(summary.results[0].verdict, VerdictKind::flaky));
  EXPECT_EQ(summary.results[2].verdict, VerdictKind::conforms);
  EXPECT_NE(exit_code(summary), 0);
}

TEST_F(Processes, TheCaseThatBreaksIsShownWhereOthersDiffer) {
  RunOptions options = run_of(server("exit-on-open", "fault:scores-scaled"), 8);
  options.properties = {"agreement"};
  const PropertyResult result = run_properties(options).results.at(0);
  EXPECT_EQ(result.verdict, VerdictKind::broken);
  ASSERT_TRUE(result.failure && result.besides);
  EXPECT_EQ(result.failure->verdict.kind, VerdictKind::broken);
  EXPECT_THAT(result.message, HasSubstr("exited with status 9 when asked for open"));
  EXPECT_EQ(result.besides->verdict, VerdictKind::differs);
  EXPECT_TRUE(fs::exists(result.besides->file));
}

TEST_F(Processes, AScoredFailureKeepsItsVerdictWhenTheProbeForItsCauseBreaks) {
  for (int i = 0;; ++i) {
    ASSERT_LT(i, 100) << "no case that scores";
    Case test_case = find_property("agreement").generate(5, i, CaseSize::smoke);
    if (test_case.calls[0].kind != Call::Kind::score) continue;
    test_case.subject = "process:" + server("exit-on-open-after-score", "fault:scores-scaled");
    const PropertyResult result = replay_case(test_case, {});
    EXPECT_EQ(result.verdict, VerdictKind::differs) << result.message;
    break;
  }
}

TEST_F(Processes, ACaseThatBreaksTheSubjectIsKeptAndBreaksItAgain) {
  const RunSummary summary = run_properties(run_of(server("half-a-payload"), 2));
  const PropertyResult& result = summary.results.at(0);
  EXPECT_EQ(result.verdict, VerdictKind::broken);
  ASSERT_TRUE(result.failure);
  EXPECT_TRUE(fs::exists(result.failure->file));
  EXPECT_EQ(exit_code(summary), 4);
}

TEST_F(Processes, NanIsADifferenceAndNoBreakdown) {
  const RunSummary summary = run_properties(run_of(server("nan"), 3));
  EXPECT_EQ(summary.results.at(0).verdict, VerdictKind::differs);
  EXPECT_EQ(exit_code(summary), 1);
}

TEST_F(Processes, UnsupportedIsRefusedAndInvalidForValidInputDiffers) {
  const RunSummary refused = run_properties(run_of(server("error-unsupported"), 3));
  EXPECT_EQ(refused.results.at(0).verdict, VerdictKind::refused);
  ASSERT_EQ(refused.results.at(0).reasons.size(), 1u);
  EXPECT_EQ(refused.results.at(0).reasons[0].text, "on purpose");
  EXPECT_EQ(refused.results.at(0).reasons[0].cases, 3);
  EXPECT_THAT(refused.results.at(0).reasons[0].first,
              testing::MatchesRegex("call 1, extend of rows of .* tokens by .*"));
  EXPECT_EQ(exit_code(refused), 3);
  EXPECT_EQ(run_properties(run_of(server("error-invalid"), 3)).results.at(0).verdict,
            VerdictKind::differs);
}

class EachLateWord : public Processes, public testing::WithParamInterface<const char*> {};

TEST_P(EachLateWord, BreaksItsCase) {
  const RunSummary summary = run_properties(run_of(server(GetParam()), 4));
  const PropertyResult& result = summary.results.at(0);
  EXPECT_EQ(result.counts, (VerdictCounts{{VerdictKind::broken, 4}}));
  EXPECT_THAT(result.message, HasSubstr("had written more than its last reply, "));
  EXPECT_THAT(result.message, HasSubstr(": \"{\"ok\":true}"));
}

INSTANTIATE_TEST_SUITE_P(Processes, EachLateWord,
                         testing::Values("unload-answered-twice", "refuses-twice",
                                         "score-answered-twice"));

TEST_F(Processes, WordsLongAfterTheLastReplyBreakTheLastCase) {
  const RunSummary summary = run_properties(run_of(server("late-line-after-unload"), 1));
  EXPECT_EQ(summary.results.at(0).verdict, VerdictKind::broken);
}

struct Hopeless {
  const char *script, *words;
};

class EachHopelessCommand : public Processes, public testing::WithParamInterface<Hopeless> {};

TEST_P(EachHopelessCommand, IsGivenOneVerdictAndNoFurtherCases) {
  const auto begin = Clock::now();
  RunOptions options = run_of(GetParam().script);
  options.properties.clear();
  options.timeout = 1;
  options.jobs = 2;
  const RunSummary summary = run_properties(options);
  ASSERT_EQ(summary.results.size(), 1u);
  const PropertyResult& result = summary.results[0];
  EXPECT_EQ(result.verdict, VerdictKind::broken);
  EXPECT_EQ(result.counts, (VerdictCounts{{VerdictKind::broken, 1}}));
  EXPECT_THAT(result.message, HasSubstr("twice no proper answer to hello"));
  EXPECT_THAT(result.message, HasSubstr(GetParam().words));
  EXPECT_EQ(exit_code(summary), 4);
  EXPECT_LT(seconds_since(begin), 15);
}

INSTANTIATE_TEST_SUITE_P(
    Processes, EachHopelessCommand,
    testing::Values(
        Hopeless{"false", "exited with status 1"},
        Hopeless{"sh -c 'kill -SEGV $$'; exit $?",
                 "exited with status 139: in a shell's words, signal 11 (SIGSEGV)"},
        Hopeless{"true", "exited with status 0"},
        Hopeless{"/no/such/program", "exited with status 127 (the shell does not find"},
        Hopeless{"sleep 1000", "gave no complete answer in time when asked for hello"},
        Hopeless{"exec sleep 1000 <&-", "gave no complete answer in time"},
        Hopeless{"while :; do echo hello; done", "is not a message: \"hello\""},
        Hopeless{"exec tr '\\0' x < /dev/zero", "sent a line of more than 16777216 bytes"},
        Hopeless{"printf '{\"ok\"'", "exited with status 0 in the middle of a message"},
        Hopeless{"printf '{\"ok\"'; sleep 1000", "gave no complete answer in time"},
        Hopeless{"read x; echo '{\"ok\":true,\"payload\":99999999}'; sleep 1000",
                 "announces a payload of 99999999 bytes, expected 0"},
        Hopeless{"read x; echo '{\"ok\":true}'", "its reply to hello lacks the field \"name\""},
        Hopeless{"exec >&-; sleep 1000", "closed its standard output and goes on running"},
        Hopeless{"sleep 1000 & exit 5", "exited with status 5"},
        Hopeless{"trap '' TERM INT HUP; while :; do sleep 1; done",
                 "gave no complete answer in time"},
        Hopeless{"while :; do echo noise >&2; done", "standard error ends: noise; before that: … "},
        Hopeless{
            "printf 'Traceback (most recent call last):\\n  File \"e.py\"\\nKeyError: 7\\n' >&2",
            "standard error ends: KeyError: 7; in File \"e.py\""},
        Hopeless{"read x; echo "
                 "'{\"ok\":true,\"name\":\"n\",\"version\":\"1\",\"families\":[\"llama\"]}'",
                 "\"families\" with \"llama\", not some of gemma3n_text, gemma4_text; name those"},
        Hopeless{"printf '\\377\\1\\n'; sleep 1000", "is not a message: \"\\xff\\x01\""}));

TEST_F(Processes, OneFailedHelloIsForgiven) {
  fs::create_directory(mark());
  ProcessSubject subject(server("hello-fails-once"), {});
  EXPECT_EQ(subject.info().name, "reference");
  EXPECT_FALSE(fs::exists(mark()));
}

TEST_F(Processes, ASubjectThatDoesNotComeBackEndsTheRun) {
  fs::create_directory(mark());
  const RunSummary summary = run_properties(run_of(server("dead-after-one-case"), 20));
  ASSERT_EQ(summary.results.size(), 1u);
  EXPECT_EQ(summary.results[0].counts, (VerdictCounts{{VerdictKind::broken, 2}}));
  EXPECT_EQ(summary.results[0].cases, 2);
  EXPECT_EQ(exit_code(summary), 4);
}

TEST_F(Processes, AnEmptyCommandIsRefused) {
  try {
    make_subject("process: ");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), "KV2104");
  }
}

TEST_F(Processes, AnInterruptEndsTheRequestUnderWay) {
  std::atomic<bool> stop = false;
  RunOptions options = run_of(server("hang"), 5);
  options.timeout = 60;
  options.stop = &stop;
  const auto begin = Clock::now();
  std::thread ctrl_c([&] {
    comes_to(true, mark().parent_path().string());
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    stop = true;
  });
  const RunSummary summary = run_properties(options);
  ctrl_c.join();
  EXPECT_EQ(exit_code(summary), 130);
  EXPECT_LT(seconds_since(begin), 25);
  EXPECT_TRUE(summary.counts.empty());
}

TEST_F(Processes, ItEndsWithTheHarnessEvenWhenThatIsKilled) {
  const std::string command = "trap '' TERM INT HUP; sleep 1000; sleep 1000";
  const pid_t harness = fork();
  ASSERT_GE(harness, 0);
  if (harness == 0) {
    const ChildProcess child(command);
    for (;;) pause();
  }
  EXPECT_TRUE(comes_to(true, mark().parent_path().string()));
  kill(harness, SIGKILL);
  waitpid(harness, nullptr, 0);
  EXPECT_TRUE(comes_to(false, mark().parent_path().string()));
}

}  // namespace
}  // namespace kvconform
