// Temporary folders go with their owner, and what a killed process left goes with the next run:
// only folders of this user, of this pattern, of a process that has ended.
#include "properties/temporary_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "reference/error.h"

namespace kvconform {
namespace {

namespace fs = std::filesystem;

/// A TMPDIR of its own for the test, so that nothing else in the real one matters.
class TemporaryFolders : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "tmpdir-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    setenv("TMPDIR", root_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("TMPDIR");
    fs::remove_all(root_);
  }
  fs::path make(const std::string& name) const {
    fs::create_directories(root_ / name);
    std::ofstream(root_ / name / "file") << "x";
    return root_ / name;
  }
  fs::path root_;
};

/// The id of a process that has ended and been waited for.
pid_t ended_process() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

TEST_F(TemporaryFolders, AFolderCarriesTheProcessIdAndGoesWithItsOwner) {
  fs::path path;
  {
    const TemporaryFolder folder("kvconform-model");
    path = folder.path();
    EXPECT_EQ(path.filename().string().rfind("kvconform-model-" + std::to_string(getpid()), 0), 0u);
    remove_stale_temporary_folders();
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(TemporaryFolders, WhatAnEndedProcessLeftIsRemovedAndNothingElse) {
  const std::string ended = std::to_string(ended_process());
  const fs::path stale = make("kvconform-model-" + ended + "-aBcDeF");
  const fs::path of_init = make("kvconform-model-1-aBcDeF");
  const fs::path foreign = make("other-model-" + ended + "-aBcDeF");
  const fs::path without_id = make("kvconform-failures-aBcDeF");
  const fs::path longer = make("kvconform-model-" + ended + "-aBcDeFg");
  const fs::path kept = make_kept_folder("kvconform-failures");
  const fs::path linked = root_ / ("kvconform-run-" + ended + "-aBcDeF");
  fs::create_directory_symlink(foreign, linked);
  remove_stale_temporary_folders();
  EXPECT_FALSE(fs::exists(stale));
  for (const fs::path& path : {of_init, foreign, without_id, longer, kept, linked}) {
    EXPECT_TRUE(fs::exists(path)) << path;
  }
  EXPECT_TRUE(fs::exists(foreign / "file"));
}

TEST_F(TemporaryFolders, AFolderThatSomebodyHoldsStaysThoughItsProcessIsNotSeen) {
  const fs::path held = make("kvconform-model-" + std::to_string(ended_process()) + "-aBcDeF");
  const int lock = open(held.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(flock(lock, LOCK_SH), 0);
  remove_stale_temporary_folders();
  EXPECT_TRUE(fs::exists(held));
  close(lock);
  remove_stale_temporary_folders();
  EXPECT_FALSE(fs::exists(held));
}

TEST_F(TemporaryFolders, ATmpdirThatIsNotThereIsNamedWithItsValue) {
  setenv("TMPDIR", (root_ / "nowhere").c_str(), 1);
  remove_stale_temporary_folders();
  try {
    const TemporaryFolder folder("kvconform-model");
    ADD_FAILURE() << "no error";
  } catch (const HarnessError& e) {
    EXPECT_EQ(e.id(), "KV2011");
    EXPECT_NE(e.problem().find((root_ / "nowhere").string()), std::string::npos) << e.problem();
    EXPECT_NE(e.problem().find("TMPDIR"), std::string::npos) << e.problem();
  }
}

}  // namespace
}  // namespace kvconform
