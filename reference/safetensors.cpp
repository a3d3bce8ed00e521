// Reading: map, check the header against the bytes that are there, hand out views. Writing: lay
// out, write, rename.
#include "reference/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <tuple>

#include "reference/counted.h"
#include "reference/error.h"
#include "reference/partial_file.h"
#include "reference/safetensors_header.h"
#include "reference/safetensors_layout.h"

namespace kvconform {

static_assert(std::endian::native == std::endian::little,
              "safetensors is little-endian and tensors are handed out as they lie in the file");

namespace {

constexpr std::uint64_t length_bytes = 8;
constexpr std::uint64_t header_cap = 100'000'000;  // the limit of the format's own library
const char* const damaged =
    "the file is damaged or no safetensors file; download or write it again";

// A read-only private mapping of a whole file.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& file);
  ~MappedFile() {
    if (bytes_ != nullptr) ::munmap(bytes_, size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* bytes() const { return static_cast<const std::byte*>(bytes_); }
  std::size_t size() const { return size_; }

 private:
  void map(int descriptor, const std::string& name);

  void* bytes_ = nullptr;
  std::size_t size_ = 0;
};

MappedFile::MappedFile(const std::filesystem::path& file) {
  // Without O_NONBLOCK, opening a named pipe would wait for a writer for ever.
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    throw Error("KV1201", fmt::format("cannot open {}: {}", file.string(), std::strerror(errno)),
                "check the path and that you may read it");
  try {
    map(descriptor, file.string());
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  ::close(descriptor);
}

void MappedFile::map(int descriptor, const std::string& name) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode))
    throw Error("KV1202", name + " is not a regular file", "give the path of a .safetensors file");
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;  // mmap refuses length 0; the parser says what is wrong
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (mapped == MAP_FAILED)
    throw Error("KV1219", fmt::format("cannot map {}: {}", name, std::strerror(errno)),
                "copy the file to a local disk, or raise the limit on virtual memory (ulimit -v)");
  bytes_ = mapped;
}

std::uint64_t header_length(const std::byte* bytes, std::uint64_t size, const std::string& origin) {
  if (size < length_bytes)
    throw Error(
        "KV1203",
        fmt::format("{} has {}, too few for a header length", origin, counted(size, "byte")),
        damaged);
  std::uint64_t length;
  std::memcpy(&length, bytes, sizeof length);
  if (length == 0 || length > header_cap)
    throw Error(
        "KV1204",
        fmt::format("{}: the header length is {}, allowed are 1 to {}", origin, length, header_cap),
        damaged);
  if (length > size - length_bytes)
    throw Error("KV1205",
                fmt::format("{}: the header takes {}, but only {} follow its length", origin,
                            counted(length, "byte"), size - length_bytes),
                "the file is cut short; download it again");
  return length;
}

// The data section is covered exactly: each tensor starts where the one before ended.
void check_layout(std::vector<HeaderEntry>& entries, std::uint64_t data_bytes,
                  const std::string& origin) {
  std::sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t covered = 0;
  for (const HeaderEntry& entry : entries) {
    const std::string name = quoted_name(entry.name);
    if (entry.end - entry.begin != entry.bytes)
      throw Error(
          "KV1213",
          fmt::format("{}: {} is {} {}, {}, but its data_offsets [{}, {}] span {}", origin, name,
                      entry.dtype, shape_text(entry.shape), counted(entry.bytes, "byte"),
                      entry.begin, entry.end, entry.end - entry.begin),
          damaged);
    if (entry.end > data_bytes)
      throw Error("KV1214",
                  fmt::format("{}: {} ends at byte {} of the data, but the file holds only {}",
                              origin, name, entry.end, data_bytes),
                  "the file is cut short; download it again");
    if (entry.begin < covered)
      throw Error(
          "KV1215",
          fmt::format("{}: {} begins at byte {}, inside the tensor before it, which ends at {}",
                      origin, name, entry.begin, covered),
          damaged);
    if (entry.begin > covered)
      throw Error("KV1216",
                  fmt::format("{}: {} before {} {} to no tensor", origin,
                              counted(entry.begin - covered, "byte"), name,
                              agreeing(entry.begin - covered, "belongs", "belong")),
                  damaged);
    covered = entry.end;
  }
  if (covered != data_bytes)
    throw Error("KV1217",
                fmt::format("{}: {} after the last tensor {} to none", origin,
                            counted(data_bytes - covered, "byte"),
                            agreeing(data_bytes - covered, "belongs", "belong")),
                damaged);
}

std::optional<Dtype> dtype_of(const std::string& name) {
  for (Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16})
    if (name == to_string(dtype)) return dtype;
  return std::nullopt;
}

// The data itself, or a copy where it is not aligned to `alignment`.
const std::byte* aligned(const std::byte* data, std::size_t bytes, std::size_t alignment,
                         TensorTable& table) {
  if (reinterpret_cast<std::uintptr_t>(data) % alignment == 0) return data;
  auto copy = std::make_shared<std::vector<std::byte>>(std::max<std::size_t>(bytes, 1));
  if (bytes > 0) std::memcpy(copy->data(), data, bytes);
  const std::byte* moved = copy->data();
  table.keep_alive.push_back(std::move(copy));
  return moved;
}

void add_entry(const HeaderEntry& entry, const std::byte* data, SafetensorsContent& content) {
  if (const auto dtype = dtype_of(entry.dtype)) {
    const std::size_t alignment = static_cast<std::size_t>(byte_size(*dtype));
    content.table.tensors[entry.name] = {*dtype, entry.shape,
                                         aligned(data, entry.bytes, alignment, content.table)};
    return;
  }
  content.others[entry.name] = {entry.dtype, entry.shape,
                                aligned(data, entry.bytes, 8, content.table), entry.bytes};
}

}  // namespace

SafetensorsContent parse_safetensors(const std::byte* bytes, std::size_t size,
                                     const std::string& origin,
                                     std::shared_ptr<const void> keep_alive) {
  const std::uint64_t length = header_length(bytes, size, origin);
  const std::byte* data = bytes + length_bytes + length;
  SafetensorsHeader header = parse_safetensors_header(
      {reinterpret_cast<const char*>(bytes) + length_bytes, length}, origin);
  check_layout(header.entries, size - length_bytes - length, origin);

  SafetensorsContent content;
  content.metadata = std::move(header.metadata);
  content.table.keep_alive.push_back(std::move(keep_alive));
  for (const HeaderEntry& entry : header.entries) add_entry(entry, data + entry.begin, content);
  for (const auto& [name, tensor] : content.others)
    content.other_dtypes.push_back(fmt::format("{} ({})", name, tensor.dtype));
  return content;
}

SafetensorsContent read_safetensors(const std::filesystem::path& file) {
  auto mapping = std::make_shared<const MappedFile>(file);
  return parse_safetensors(mapping->bytes(), mapping->size(), file.string(), mapping);
}

void write_safetensors(const std::filesystem::path& file, const TensorTable& table,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<LaidOutTensor> tensors;
  for (const auto& [name, view] : table.tensors) tensors.push_back({name, view.dtype, view.shape});
  const std::string header = lay_out_safetensors(tensors, metadata);
  PartialFile out(file);
  out.write_at(0, header.data(), header.size());
  for (const LaidOutTensor& tensor : tensors)
    out.write_at(tensor.file_offset, table.tensors.at(tensor.name).data, tensor.bytes);
  out.commit();
}

}  // namespace kvconform
