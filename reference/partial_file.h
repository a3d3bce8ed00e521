// A file that appears under its name only when it is complete.
//
//   PartialFile out("model.safetensors");
//   out.write_at(0, bytes, size);   // any order, from several threads
//   out.commit();                   // without it the destructor removes every trace
//
// Everything that can go wrong is a HarnessError KV1220: the disk's fault, not the model's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace kvconform {

class PartialFile {
 public:
  explicit PartialFile(std::filesystem::path target);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  void write_at(std::uint64_t offset, const void* bytes, std::size_t size);
  void commit();

 private:
  [[noreturn]] void fail(const char* action, int error);

  std::filesystem::path target_, temporary_;
  int descriptor_ = -1;
};

}  // namespace kvconform
