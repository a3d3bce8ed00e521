// Subjects by the names people type (cli.md, "Subjects").
//
//   auto subject = make_subject("reference:double");
//
// A subject is not shared between threads: make one a thread. Errors: KV21xx.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "properties/subject.h"

namespace kvconform {

/// What a name makes and what it is good for, for help texts and `doctor`.
struct SubjectEntry {
  std::string name;  ///< e.g. "reference:bfloat16", "fault:NAME"
  std::string description;
};

/// For subjects in other processes.
struct SubjectOptions {
  double timeout = 30;                      ///< seconds for one request
  const std::atomic<bool>* stop = nullptr;  ///< set by Ctrl-C: give up on the request under way
  double start_timeout = 0;                 ///< seconds for hello; 0: as for any other request
};

/// Every form of name that make_subject understands, but for the adapters (subjects/adapters.h).
std::vector<SubjectEntry> known_subjects();

/// Names the program that runs, as `PROGRAM serve NAME`, subjects that need a process of their own:
/// a CUDA context does not survive an error. Unless main() calls this once, they run in the
/// caller's.
void serve_subjects_with(const std::filesystem::path& program);

/// The subject itself, in this process, whatever process it needs. What `serve` serves.
std::unique_ptr<Subject> make_subject_here(const std::string& name);

/// Throws Error KV2101 (no such subject, naming those that exist).
/// A process starts when it is first asked something.
std::unique_ptr<Subject> make_subject(const std::string& name, const SubjectOptions& options = {});

}  // namespace kvconform
