// What nvcc makes of each kernel, without a GPU: registers, spills, stack and shared memory as
// ptxas reports them, and, where a disassembler is installed, the mix of instructions. One entry a
// kernel and architecture, named machine_code/KERNEL/sm_90, in Google Benchmark's JSON: all numbers
// are exact, and `bench compare --gate-counts` holds them.
//
// Errors: KV5007 (no nvcc), KV5008 (nvcc or the disassembler fails on a kernel).
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace kvconform::bench {

/// A sentence that says why there is no machine code to look at; empty if there is.
std::string machine_code_missing();
void require_machine_code();

/// The same about the mix of instructions.
std::string disassembler_missing();

/// Compiles every kernel in cuda/kernels/ of a source tree (default: this one) for sm_80, 90, 100
/// and 120; minutes of CPU.
nlohmann::json machine_code_json(const std::filesystem::path& scratch,
                                 const std::filesystem::path& tree = {});

using KernelNumbers = std::map<std::string, double>;  ///< by counter

/// What `ptxas -v` says, by architecture and kernel ("sm_90", mangled name).
std::map<std::pair<std::string, std::string>, KernelNumbers> read_ptxas(const std::string& text);
/// The same from a disassembly by `cuobjdump -sass` or `nvdisasm`.
std::map<std::pair<std::string, std::string>, KernelNumbers> read_sass(const std::string& text);
/// A mangled name as one reads it: "projection_kernel<8, 1>", "rms_norm_kernel<Team::warp>".
std::string readable_kernel(const std::string& mangled);

}  // namespace kvconform::bench
