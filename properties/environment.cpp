// Reading the environment. What cannot be read is left out.
#include "properties/environment.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <fstream>
#include <thread>

namespace kvconform {
namespace {

std::string first_value(const char* file, const std::string& key, char separator) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const std::size_t at = line.find(separator);
    if (at == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t\"", at + 1);
    const std::size_t end = line.find_last_not_of(" \t\"");
    if (begin != std::string::npos) return line.substr(begin, end - begin + 1);
  }
  return "";
}

}  // namespace

std::map<std::string, std::string> describe_environment() {
  std::map<std::string, std::string> environment;
#if defined(__clang__)
  environment["compiler"] = std::string("clang ") + __clang_version__;
#else
  environment["compiler"] = std::string("g++ ") + __VERSION__;
#endif
  utsname system;
  if (uname(&system) == 0) {
    environment["kernel"] = fmt::format("{} {}", system.sysname, system.release);
    environment["machine"] = system.machine;
  }
  environment["processor"] = first_value("/proc/cpuinfo", "model name", ':');
  environment["system"] = first_value("/etc/os-release", "PRETTY_NAME", '=');
  environment["cores"] = fmt::format("{}", std::thread::hardware_concurrency());
  std::erase_if(environment, [](const auto& entry) { return entry.second.empty(); });
  return environment;
}

}  // namespace kvconform
