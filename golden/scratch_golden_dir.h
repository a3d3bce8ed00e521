// For tests: a golden folder of its own that ends with the test, with recipes given as text and the
// stored models of the source tree. While it lives KVCONFORM_GOLDEN_DIR names it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "golden/oracle_cases.h"

namespace kvconform {

class ScratchGoldenDir {
 public:
  ScratchGoldenDir() : source_(golden_dir()) {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("golden-") + test->test_suite_name() + "-" + test->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::filesystem::create_directory_symlink(source_ / "mlx-lm-1674", folder_ / "mlx-lm-1674");
    setenv("KVCONFORM_GOLDEN_DIR", folder_.c_str(), 1);
  }
  ~ScratchGoldenDir() {
    unsetenv("KVCONFORM_GOLDEN_DIR");
    std::filesystem::remove_all(folder_);
  }
  ScratchGoldenDir(const ScratchGoldenDir&) = delete;
  ScratchGoldenDir& operator=(const ScratchGoldenDir&) = delete;

  const std::filesystem::path& path() const { return folder_; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  std::string read(const std::string& name) const {
    std::ifstream in(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

 private:
  std::filesystem::path source_, folder_;
};

}  // namespace kvconform
