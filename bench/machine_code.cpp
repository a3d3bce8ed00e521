// Running nvcc and a disassembler, and reading what they print.
#include "bench/machine_code.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <thread>
#include <vector>

#include "reference/error.h"

namespace kvconform::bench {
namespace {

using Path = std::filesystem::path;
using Key = std::pair<std::string, std::string>;  // architecture, mangled name
using Kernels = std::map<Key, KernelNumbers>;

constexpr const char* kArchitectures[] = {"80", "90", "100", "120"};

struct Output {
  int status = -1;
  std::string text;
};

Output run_shell(const std::string& command) {
  Output output;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return output;
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe))
    output.text.append(buffer, got);
  output.status = pclose(pipe);
  return output;
}

/// A tool of the CUDA Toolkit: on the path or where it is usually installed; empty: nowhere.
std::string tool(const std::string& name) {
  for (const std::string& place : {name, "/usr/local/cuda/bin/" + name}) {
    Output found = run_shell("command -v " + place);
    if (found.status != 0) continue;
    found.text.erase(found.text.find_last_not_of('\n') + 1);
    return found.text;
  }
  return "";
}

std::vector<Path> kernel_files(const Path& tree) {
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::directory_iterator(tree / "cuda" / "kernels"))
    if (entry.path().extension() == ".cu") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

double number_before(const std::string& line, const char* words) {
  const std::size_t end = line.find(words);
  if (end == std::string::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && (std::isdigit(line[begin - 1]) || line[begin - 1] == ' ')) --begin;
  return std::strtod(line.c_str() + begin, nullptr);
}

bool starts_with_any(const std::string& word, std::initializer_list<const char*> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](const char* beginning) { return word.rfind(beginning, 0) == 0; });
}

/// One instruction into the mix, by the beginning of its name.
void count_instruction(const std::string& opcode, KernelNumbers& mix) {
  if (opcode == "NOP") return;  // padding
  ++mix["instructions"];
  if (starts_with_any(opcode, {"LDG", "LD.", "LDGSTS"})) ++mix["instructions_global_load"];
  if (starts_with_any(opcode, {"STG", "ST."})) ++mix["instructions_global_store"];
  if (starts_with_any(opcode, {"LDS", "STS", "ATOMS"})) ++mix["instructions_shared"];
  if (starts_with_any(opcode, {"LDL", "STL"})) ++mix["instructions_local"];
  if (starts_with_any(opcode, {"SHFL"})) ++mix["instructions_shuffle"];
  if (starts_with_any(opcode, {"FFMA", "DFMA"}))  // HFMA2 moves constants
    ++mix["instructions_multiply_add"];
  if (starts_with_any(opcode, {"HMMA", "IMMA", "DMMA", "HGMMA", "QMMA", "OMMA", "UTC"}))
    ++mix["instructions_matrix"];
  if (starts_with_any(opcode, {"BAR"})) ++mix["instructions_barrier"];
  if (starts_with_any(opcode, {"BRA", "BRX", "JMP", "CALL"})) ++mix["instructions_branch"];
}

void erase_all(std::string& text, const std::string& part) {
  for (std::size_t at; (at = text.find(part)) != std::string::npos;) text.erase(at, part.size());
}

[[noreturn]] void cannot(const char* what, const Path& file, const Output& output) {
  throw HarnessError(
      "KV5008",
      fmt::format("{} {} (status {}): {}", what, file.string(), output.status,
                  output.text.substr(0, 2000)),
      "a CUDA Toolkit of version 13 is needed, cuobjdump with the nvdisasm beside it");
}

Kernels compile(const std::string& nvcc, const Path& tree, const Path& file, const Path& object) {
  std::string command =
      fmt::format("'{}' -std=c++20 -fmad=false -I'{}' -Xptxas -v", nvcc, tree.string());
  for (const char* architecture : kArchitectures)
    command += fmt::format(" -gencode arch=compute_{0},code=sm_{0}", architecture);
  const Output compiled =
      run_shell(fmt::format("{} -c '{}' -o '{}'", command, file.string(), object.string()));
  if (compiled.status != 0) cannot("nvcc cannot compile", file, compiled);
  return read_ptxas(compiled.text);
}

/// nvdisasm is looked for beside cuobjdump: an unpacked toolkit need not be on the path.
void disassemble(const std::string& disassembler, const Path& object, Kernels& kernels) {
  const Output sass = run_shell(fmt::format("PATH=\"$(dirname '{0}'):$PATH\" '{0}' -sass '{1}'",
                                            disassembler, object.string()));
  const Kernels mixes = read_sass(sass.text);
  if (sass.status != 0 || mixes.empty()) cannot("cuobjdump cannot disassemble", object, sass);
  for (const auto& [key, mix] : mixes)
    if (kernels.contains(key)) kernels[key].insert(mix.begin(), mix.end());
}

nlohmann::json entry_of(const Key& key, const KernelNumbers& numbers) {
  const std::string name =
      fmt::format("machine_code/{}/{}", readable_kernel(key.second), key.first);
  nlohmann::json entry = {{"name", name},     {"run_name", name},  {"run_type", "iteration"},
                          {"repetitions", 1}, {"iterations", 1},   {"real_time", 0.0},
                          {"cpu_time", 0.0},  {"time_unit", "ns"}, {"repetition_index", 0}};
  for (const auto& [counter, value] : numbers) entry[counter] = value;
  return entry;
}

}  // namespace

std::string machine_code_missing() {
  return tool("nvcc").empty()
             ? "There is no nvcc here: the kernels' machine code was not looked at."
             : "";
}

std::string disassembler_missing() {
  return tool("cuobjdump").empty() ? "There is no cuobjdump here: instructions were not counted."
                                   : "";
}

void require_machine_code() {
  if (!machine_code_missing().empty())
    throw Error("KV5007", "there is no nvcc on the path or in /usr/local/cuda/bin",
                "install a CUDA Toolkit of version 13, or leave --machine-code out");
}

nlohmann::json machine_code_json(const Path& scratch, const Path& source_tree) {
  require_machine_code();
  const Path tree = source_tree.empty() ? Path(KVCONFORM_SOURCE_DIR) : source_tree;
  const std::string nvcc = tool("nvcc"), disassembler = tool("cuobjdump");
  const std::vector<Path> files = kernel_files(tree);
  Kernels all;
  std::string failure;
  std::mutex mutex;
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i; (i = next++) < files.size();) try {
        const Path object = scratch / fmt::format("{}.o", i);
        Kernels kernels = compile(nvcc, tree, files[i], object);
        if (!disassembler.empty()) disassemble(disassembler, object, kernels);
        std::lock_guard lock(mutex);
        all.merge(kernels);
      } catch (const std::exception& error) {
        std::lock_guard lock(mutex);
        failure = error.what();
      }
  };
  {
    std::vector<std::jthread> workers;
    for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i)
      workers.emplace_back(work);
  }
  if (!failure.empty())
    throw HarnessError("KV5008", failure, "a CUDA Toolkit of version 13 is needed");
  nlohmann::json json = {{"context", {{"nvcc", nvcc}}}, {"benchmarks", nlohmann::json::array()}};
  for (const auto& [key, numbers] : all) json["benchmarks"].push_back(entry_of(key, numbers));
  return json;
}

Kernels read_ptxas(const std::string& text) {
  static const std::regex begins("Compiling entry function '([^']+)' for '([^']+)'");
  Kernels kernels;
  KernelNumbers* current = nullptr;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_search(line, match, begins)) {
      current = &kernels[{match[2], match[1]}];
    } else if (current && line.find("bytes stack frame") != std::string::npos) {
      (*current)["stack_bytes"] = number_before(line, " bytes stack frame");
      (*current)["spill_bytes"] =
          number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads");
    } else if (current && line.find(" registers") != std::string::npos) {
      (*current)["registers"] = number_before(line, " registers");
      (*current)["shared_bytes"] = number_before(line, " bytes smem");
      current = nullptr;
    }
  }
  return kernels;
}

Kernels read_sass(const std::string& text) {
  static const std::regex architecture("code for (sm_[0-9a-z]+)"), function("Function : (\\S+)"),
      instruction("^\\s+/\\*[0-9a-f]{4,}\\*/\\s+(?:@!?U?P\\w+\\s+)?([A-Z][A-Z0-9_.]*)");
  Kernels kernels;
  KernelNumbers* current = nullptr;
  std::string code_for;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_search(line, match, architecture)) {
      code_for = match[1];
    } else if (std::regex_search(line, match, function)) {
      current = &kernels[{code_for, match[1]}];
      for (const char* counter :
           {"instructions", "instructions_global_load", "instructions_global_store",
            "instructions_shared", "instructions_multiply_add", "instructions_matrix",
            "instructions_barrier", "instructions_branch", "instructions_local",
            "instructions_shuffle"})
        (*current)[counter] = 0;
    } else if (current && std::regex_search(line, match, instruction)) {
      count_instruction(match[1], *current);
    }
  }
  return kernels;
}

std::string readable_kernel(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free);
  if (status != 0) return mangled;
  std::string name = text.get();
  // The name of an anonymous namespace holds a hash of the file's path.
  for (const char* part : {"(anonymous namespace)::", "kvconform::cuda::gpu::"})
    erase_all(name, part);
  if (name.rfind("void ", 0) == 0) name.erase(0, 5);
  // The arguments: from the parenthesis that is in no template argument.
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '<' ? 1 : name[i] == '>' ? -1 : 0;
    if (name[i] == '(' && depth == 0) return name.substr(0, i);
  }
  return name;
}

}  // namespace kvconform::bench
