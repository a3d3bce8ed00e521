// The adapters that are shipped: other people's engines behind the subject protocol, each a Python
// program in properties/adapters with an environment of its own, made below build/ when it is first
// asked for.
//
//   if (const auto adapter = find_adapter("transformers:sdpa,static")) {
//     make_environment(*adapter);  // downloads; says how much before
//     ProcessSubject subject(adapter->command, options);
//   }
//
// Errors: KV2130 (no environment), KV2131 (no such variant).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "properties/subject_registry.h"

namespace kvconform {

struct Adapter {
  std::string name;                   ///< "transformers", without its variants
  std::string command;                ///< for /bin/sh
  std::filesystem::path environment;  ///< folder of its packages
  bool is_ready = false;              ///< the environment exists and is up to date
  std::int64_t cases = 0;  ///< of a property, unless more are asked for: enough after refusals
};

/// nullopt: not the name of an adapter.
std::optional<Adapter> find_adapter(const std::string& subject);

/// Returns at once where the environment is there; else takes as long as a download takes, with
/// lines about it on standard error.
void make_environment(const Adapter& adapter);

/// Names and variants, for help texts and `doctor`.
std::vector<SubjectEntry> adapter_subjects();

}  // namespace kvconform
