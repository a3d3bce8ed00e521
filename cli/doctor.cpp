// doctor: what this machine has, and which subjects can run on it. It looks, and changes nothing.
#include <openssl/crypto.h>
#include <sleef.h>
#include <sys/utsname.h>
#include <CLI/CLI.hpp>

#include <Eigen/Core>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>
#include <string>
#include <thread>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/subjects.h"
#include "cli/version.h"

namespace kvconform::cli {
namespace {

// First line that a command prints, "" if it fails or is not there.
std::string first_line(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen((command + " 2>/dev/null").c_str(), "r"),
                                                   pclose);
  if (!pipe) return "";
  std::string line;
  for (int c = std::fgetc(pipe.get()); c != EOF && c != '\n'; c = std::fgetc(pipe.get()))
    line += static_cast<char>(c);
  while (std::fgetc(pipe.get()) != EOF) {
  }
  return line;
}

std::string or_none(const std::string& text) {
  return text.empty() ? "not found" : text;
}

void show(const char* name, const std::string& value) {
  print("  {:<14} {}\n", name, value);
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown model";
}

void show_machine() {
  utsname system{};
  uname(&system);
  print("machine\n");
  show("processor", processor());
  show("architecture", system.machine);
  show("threads", std::to_string(std::max(1u, std::thread::hardware_concurrency())));
  show("system", fmt::format("{} {}", system.sysname, system.release));
}

void show_compilers() {
  print("compilers\n");
#ifdef __clang__
  show("built with", __VERSION__);  // names the compiler
#else
  show("built with", "g++ " __VERSION__);
#endif
  show("g++", or_none(first_line("g++ --version")));
  show("clang++", or_none(first_line("clang++ --version")));
  show("cmake", or_none(first_line("cmake --version")));
  show("nvcc", or_none(first_line("nvcc --version | grep release")));
}

void show_libraries() {
  print("libraries\n");
  show("CLI11", CLI11_VERSION);
  show("Eigen",
       fmt::format("{}.{}.{}", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION));
  show("fmt",
       fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100));
  show("nlohmann_json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR,
                                    NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH));
  show("OpenSSL", OpenSSL_version(OPENSSL_VERSION));
  show("pugixml", fmt::format("{}.{}", PUGIXML_VERSION / 1000, PUGIXML_VERSION % 1000 / 10));
  show("SLEEF",
       fmt::format("{}.{}.{}", SLEEF_VERSION_MAJOR, SLEEF_VERSION_MINOR, SLEEF_VERSION_PATCHLEVEL));
}

void show_gpu() {
  print("GPU\n");
  show("driver",
       or_none(first_line("nvidia-smi --query-gpu=driver_version --format=csv,noheader")));
  show("device", or_none(first_line("nvidia-smi -L")));
}

ExitCode doctor() {
  print("{}\n", version_text());
  show_machine();
  show_compilers();
  show_libraries();
  show_gpu();
  print("subjects\n");
  for (const SubjectStatus& status : subject_statuses())
    print("  {:<30} {}\n", status.subject, status.text);
  return ExitCode::conforms;
}

}  // namespace

Action add_doctor(CLI::App&) {
  return doctor;
}

}  // namespace kvconform::cli
