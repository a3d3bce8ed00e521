// From the names of subjects to subjects.
#include "properties/subject_registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>

#include "properties/checkout_paths.h"
#include "properties/faults/faults.h"
#include "properties/reports/plain_text.h"
#include "properties/subjects/adapters.h"
#include "properties/subjects/kernel_trial.h"
#include "properties/subjects/process_subject.h"
#include "properties/subjects/reference_subject.h"
#include "reference/error.h"

namespace kvconform {

namespace cuda {
inline namespace emulated {
std::unique_ptr<Subject> make_cuda_subject(const std::string& name);
}
namespace planted {  // where the build has it
std::unique_ptr<Subject> make_cuda_subject(const std::string& name, KernelTrial trial);
}
namespace gpu {  // where the build has it
std::unique_ptr<Subject> make_cuda_subject(const std::string& name);
int cuda_devices();
}  // namespace gpu
}  // namespace cuda

namespace {

#ifdef KVCONFORM_GPU
constexpr bool kHasGpuSide = true;
bool has_gpu() {
  return cuda::gpu::cuda_devices() > 0;
}
std::unique_ptr<Subject> gpu_subject(const std::string& name) {
  if (!has_gpu())
    throw Error("KV2121", "there is no CUDA device on this machine",
                "use cuda:emulated, or run on a machine with an NVIDIA GPU");
  return cuda::gpu::make_cuda_subject(name);
}
#else
constexpr bool kHasGpuSide = false;
bool has_gpu() {
  return false;
}
std::unique_ptr<Subject> gpu_subject(const std::string&) {
  throw Error("KV2120", "this build has no kernels for a GPU",
              "configure with -D KVCONFORM_GPU=ON where nvcc 13 is, or use cuda:emulated");
}
#endif

#ifdef KVCONFORM_PLANTED_KERNELS
constexpr bool kHasWatchedKernels = true;
std::unique_ptr<Subject> watched_subject(const std::string& name) {
  return cuda::planted::make_cuda_subject(name, {cuda::PlantedFault::none, /*watched=*/true});
}
#else
constexpr bool kHasWatchedKernels = false;
std::unique_ptr<Subject> watched_subject(const std::string&) {
  throw Error("KV2122", "this build has no kernels that can be watched",
              "configure without KVCONFORM_SANITIZE: sanitizers have hooks of their own");
}
#endif

std::unique_ptr<Subject> cuda_subject(const std::string& name) {
  return has_gpu() ? gpu_subject(name) : cuda::emulated::make_cuda_subject(name);
}

/// Set once, before any thread asks.
std::filesystem::path& serving_program() {
  static std::filesystem::path program;
  return program;
}

template <class N>
std::unique_ptr<Subject> reference(const char* name, const char* dtype) {
  return std::make_unique<ReferenceSubject<N>>(name, dtype);
}

struct BuiltIn {
  SubjectEntry entry;
  std::function<std::unique_ptr<Subject>()> make;
};

const std::vector<BuiltIn>& built_in() {
  static const std::vector<BuiltIn> subjects = {
      {{"reference", "the CPU reference in float32: what goldens hash"},
       [] { return reference<Float32>("reference", "float32"); }},
      {{"reference:double", "the truth that errors are measured against"},
       [] { return reference<Float64>("reference:double", "float64"); }},
      {{"reference:bfloat16", "rounds where a bfloat16 model stores a tensor, sums in float32"},
       [] { return reference<BFloat16>("reference:bfloat16", "bfloat16"); }},
      {{"reference:float16", "rounds where a float16 model stores a tensor, sums in float32"},
       [] { return reference<Float16>("reference:float16", "float16"); }},
      {{"cuda",
        "the CUDA engine in float32: on a GPU if this build and machine have one, else as"
        " cuda:emulated"},
       [] { return cuda_subject("cuda"); }},
      {{"cuda:emulated", "the CUDA engine in float32 on emulated threads"},
       [] { return cuda::emulated::make_cuda_subject("cuda:emulated"); }},
      {{"cuda:emulated=float32", "the same, its precision spelled out"},
       [] { return cuda::emulated::make_cuda_subject("cuda:emulated=float32"); }}};
  return subjects;
}

const std::string kGpu = "cuda:gpu";
const std::string kWatched = "cuda:watched";
const std::string kNoisy = "reference:noisy=";
const std::string kFault = "fault:";
const std::string kProcess = "process:";
const std::string kPlugin = "plugin:";

/// The rest of a name after a prefix.
std::optional<std::string> after(const std::string& name, const std::string& prefix) {
  if (name.rfind(prefix, 0) != 0) return std::nullopt;
  return name.substr(prefix.size());
}

std::unique_ptr<Subject> noisy(const std::string& name, const std::string& dtype) {
  if (unit_roundoff(dtype) == 0) {
    throw Error("KV2102", fmt::format("the noise probe has no precision \"{}\"", dtype),
                "give float64, float32, bfloat16 or float16");
  }
  return std::make_unique<ReferenceSubject<Noisy>>(name, dtype, Healthy{}, noise_of(dtype, 1));
}

/// A GPU is used from a process of its own: after an error its context is of no use any more, and
/// the next case must find a sound one.
bool needs_a_process(const std::string& name) {
  return name == kGpu || (name == "cuda" && has_gpu());
}

std::unique_ptr<Subject> process(const std::string& command, const SubjectOptions& options) {
  if (command.find_first_not_of(" \t\n") == std::string::npos) {
    throw Error("KV2104", "process: is followed by no command",
                "give the command that starts your program, e.g. process:'python3 my_engine.py'");
  }
  return std::make_unique<ProcessSubject>(command, options);
}

void require_utf8(const std::string& name) {
  if (is_utf8(name)) return;
  throw Error("KV2106", fmt::format("the subject \"{}\" is not UTF-8", plain_text(name)),
              "give it a name in UTF-8, e.g. a script with such a name that starts it");
}

/// A program of ours loads the library: whatever that does to it, it does to a process of its own.
std::unique_ptr<Subject> plugin(const std::string& file, const SubjectOptions& options) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) {
    throw Error("KV2140", fmt::format("there is no plugin \"plugin:{}\"", file),
                "name a shared library with the interface of properties/plugin.h");
  }
  const std::string command =
      fmt::format("exec {} {}", quoted_for_shell(kPluginHost),
                  quoted_for_shell(std::filesystem::absolute(file).string()));
  return std::make_unique<ProcessSubject>(command, options);
}

/// The subject that somebody means who names a program or a library and not what it is; "" where
/// the name looks like neither.
std::string meant_by(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool is_file = fs::is_regular_file(name, ignored);
  const std::string kind = fs::path(name).extension().string();
  const std::string first_word = name.substr(0, name.find(' '));
  if (!is_file && first_word.find(':') != std::string::npos) return "";  // a misspelt prefix
  if (kind == ".so") return kPlugin + name;
  if (!is_file && first_word != name) return kProcess + name;
  const std::string path = name.find('/') == std::string::npos ? "./" + name : name;
  const std::string word = path.find(' ') == std::string::npos ? path : quoted_for_shell(path);
  if (kind == ".py") return kProcess + "exec python3 " + word;
  const bool runs = is_file && access(name.c_str(), X_OK) == 0;
  return runs ? kProcess + "exec " + word : "";
}

/// The first answer may take longer than others: Python packages of a gigabyte are read for it.
constexpr double kPatienceForAdapters = 180;

std::unique_ptr<Subject> run_adapter(const Adapter& adapter, SubjectOptions options) {
  make_environment(adapter);
  options.start_timeout = std::max(options.timeout, kPatienceForAdapters);
  return std::make_unique<ProcessSubject>(adapter.command, options);
}

}  // namespace

std::vector<SubjectEntry> known_subjects() {
  std::vector<SubjectEntry> entries;
  for (const BuiltIn& subject : built_in()) entries.push_back(subject.entry);
  if (kHasWatchedKernels)
    entries.push_back(
        {kWatched, "the same under the race checker, which looks at every memory access"});
  if (kHasGpuSide) entries.push_back({kGpu, "the CUDA engine in float32 on a GPU"});
  entries.push_back({kNoisy + "PRECISION", "the noise probe: every operation is off by a little"});
  entries.push_back({kFault + "NAME", "the reference, or the CUDA engine, with one planted fault"});
  entries.push_back({kPlugin + "FILE.so", "a shared library with the interface of plugin.h"});
  entries.push_back({kProcess + "COMMAND", "a program that speaks the subject protocol"});
  return entries;
}

void serve_subjects_with(const std::filesystem::path& program) {
  serving_program() = program;
}

std::unique_ptr<Subject> make_subject(const std::string& name, const SubjectOptions& options) {
  if (const auto command = after(name, kProcess)) {
    require_utf8(name);
    return process(*command, options);
  }
  if (const auto file = after(name, kPlugin)) {
    require_utf8(name);
    return plugin(*file, options);
  }
  if (const auto adapter = find_adapter(name)) return run_adapter(*adapter, options);
  if (needs_a_process(name) && !serving_program().empty()) {
    gpu_subject(name);  // says at once why it cannot be had
    return process(
        fmt::format("exec {} serve {}", quoted_for_shell(serving_program().string()), name),
        options);
  }
  return make_subject_here(name);
}

std::unique_ptr<Subject> make_subject_here(const std::string& name) {
  require_utf8(name);
  for (const BuiltIn& subject : built_in()) {
    if (subject.entry.name == name) return subject.make();
  }
  if (name == kGpu) return gpu_subject(name);
  if (name == kWatched) return watched_subject(name);
  if (const auto dtype = after(name, kNoisy)) return noisy(name, *dtype);
  if (const auto fault = after(name, kFault)) return make_faulty_subject(*fault);
  std::vector<std::string> names;
  for (const SubjectEntry& entry : known_subjects()) names.push_back(entry.name);
  for (const SubjectEntry& entry : adapter_subjects()) names.push_back(entry.name);
  const std::string meant = meant_by(name);
  const std::string hint =
      meant.empty() ? "" : fmt::format("did you mean --subject {}? Else ", quoted_for_shell(meant));
  throw Error("KV2101", fmt::format("there is no subject \"{}\"", name),
              fmt::format("{}use one of: {}", hint, fmt::join(names, ", ")));
}

}  // namespace kvconform
