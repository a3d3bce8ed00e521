// Names, variants and environments of the adapters. Nothing here knows Python or pip: the script
// properties/adapters/make_environment does.
#include "properties/subjects/adapters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "properties/checkout_paths.h"
#include "properties/subject.h"
#include "properties/subjects/child_process.h"
#include "reference/error.h"

namespace kvconform {
namespace {

namespace fs = std::filesystem;

struct Known {
  const char *name, *program, *settings, *description;
  /// Somebody else's engine in Python takes 20 to 50 ms a case: a check is over in a minute, too.
  std::int64_t cases;
  /// Words after the colon, one of each group at most; the first of a group is the default.
  std::vector<std::vector<std::string>> variants;
};

const std::vector<Known>& known_adapters() {
  static const std::vector<Known> all = {
      {"llama-cpp",
       "llama_cpp_adapter.py",
       // An assertion of ggml would start a debugger to print a backtrace.
       "GGML_NO_BACKTRACE=1 OMP_NUM_THREADS=1",
       "llama.cpp b11549 on the CPU, or the build that KVCONFORM_LLAMA_CPP names",
       300,  // it refuses nine models of ten, in no time
       {{"gemma4", "gemma3n"},
        {"float32", "float16"},
        {"streams", "unified", "crowded"},
        {"swa", "swa-full"},
        {"ubatch-512", "ubatch-2"}}},
      {"mlx-lm",
       "mlx_lm_adapter.py",
       // Compiled, each of its small fused functions starts a C++ compiler when first used.
       "MLX_DISABLE_COMPILE=1",
       "mlx-lm 0.32.2 on the CPU, or the checkout that KVCONFORM_MLX_LM names",
       40,
       {{"float32", "bfloat16", "float16"}}},
      {"transformers",
       "transformers_adapter.py",
       "OMP_NUM_THREADS=1",
       "Hugging Face transformers 5.24.0 on the CPU",
       40,
       {{"eager", "sdpa"},
        {"dynamic", "recording", "static"},
        {"all", "last"},
        {"float32", "bfloat16"}}}};
  return all;
}

/// Exit status of make_environment after Ctrl-C. While it runs, std::system keeps Ctrl-C from us.
constexpr int kInterrupted = 130;

fs::path source_folder() {
  return kAdaptersFolder;
}

fs::path environments_folder() {
  const char* other = std::getenv("KVCONFORM_ENVIRONMENTS");
  return other != nullptr && *other != '\0' ? other : kEnvironmentsFolder;
}

std::string content_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

bool is_made(const Known& known, const fs::path& environment) {
  const std::string made_from = content_of(environment / "made-from.txt");
  return !made_from.empty() &&
         made_from == content_of(source_folder() / fmt::format("{}.txt", known.name));
}

std::string listed(const Known& known) {
  std::vector<std::string> groups;
  for (const auto& group : known.variants) {
    groups.push_back(fmt::format("one of {}", fmt::join(group, ", ")));
  }
  return fmt::format("{}", fmt::join(groups, "; "));
}

/// Each word must be of a group, and no group may be named twice.
void require_variants(const Known& known, const std::string& variants) {
  std::vector<bool> used(known.variants.size(), false);
  std::istringstream words(variants);
  for (std::string word; std::getline(words, word, ',');) {
    const auto group =
        std::find_if(known.variants.begin(), known.variants.end(),
                     [&](const auto& g) { return std::find(g.begin(), g.end(), word) != g.end(); });
    const auto index = static_cast<std::size_t>(group - known.variants.begin());
    if (index == known.variants.size() || used[index]) {
      throw Error(
          "KV2131", fmt::format("the adapter {} has no variant \"{}\"", known.name, variants),
          fmt::format("after {}: name, with commas between, {}", known.name, listed(known)));
    }
    used[index] = true;
  }
}

Adapter adapter_of(const Known& known, const std::string& variants) {
  Adapter adapter;
  adapter.name = known.name;
  adapter.cases = known.cases;
  adapter.environment = environments_folder() / known.name;
  adapter.is_ready = is_made(known, adapter.environment);
  adapter.command = fmt::format("{} exec {} -B {} {}", known.settings,
                                quoted_for_shell((adapter.environment / "bin/python").string()),
                                quoted_for_shell((source_folder() / known.program).string()),
                                quoted_for_shell(variants));
  return adapter;
}

}  // namespace

std::optional<Adapter> find_adapter(const std::string& subject) {
  const std::size_t colon = std::min(subject.find(':'), subject.size());
  const std::string name = subject.substr(0, colon);
  for (const Known& known : known_adapters()) {
    if (name != known.name) continue;
    const std::string variants = colon == subject.size() ? "" : subject.substr(colon + 1);
    if (colon < subject.size()) require_variants(known, variants.empty() ? "," : variants);
    return adapter_of(known, variants);
  }
  return std::nullopt;
}

void make_environment(const Adapter& adapter) {
  if (adapter.is_ready) return;
  const std::string command = fmt::format(
      "exec {} {} {}", quoted_for_shell((source_folder() / "make_environment").string()),
      quoted_for_shell(adapter.name), quoted_for_shell(adapter.environment.string()));
  const int status = std::system(command.c_str());
  if (status == 0) return;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kInterrupted) throw SubjectInterrupted();
  throw Error("KV2130",
              fmt::format("the Python environment of the adapter {} cannot be made in {}",
                          adapter.name, adapter.environment.string()),
              "read what is said above: it takes python3 with venv (Debian: python3-venv), room on "
              "the disk and a package index that pip can reach");
}

std::vector<SubjectEntry> adapter_subjects() {
  std::vector<SubjectEntry> entries;
  for (const Known& known : known_adapters()) {
    entries.push_back({known.name, fmt::format("{}; {}:VARIANT with {}", known.description,
                                               known.name, listed(known))});
  }
  return entries;
}

}  // namespace kvconform
