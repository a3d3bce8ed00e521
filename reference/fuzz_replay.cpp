// Runs every file of a corpus folder through a fuzz target once, without libFuzzer: the corpus is a
// regression test under any compiler and sanitizer. It searches for nothing; the fuzzers do that.
// A finding of a fuzzer becomes a case by putting its input into the corpus folder.
//
// An empty or missing folder is a failure: a replay that replays nothing would look like a pass.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool replay(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return false;
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  // A copy of exactly this size, so that a read past the end is a sanitizer's finding.
  const std::vector<std::uint8_t> exact(bytes.begin(), bytes.end());
  std::fprintf(stderr, "%s\n", file.c_str());  // the last line names the file that crashed
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
    return 2;
  }
  const auto files = files_in(argv[1]);
  for (const auto& file : files) {
    if (!replay(file)) {
      std::fprintf(stderr, "cannot read %s\n", file.c_str());
      return 1;
    }
  }
  std::printf("%zu inputs replayed from %s\n", files.size(), argv[1]);
  return files.empty() ? 1 : 0;
}
