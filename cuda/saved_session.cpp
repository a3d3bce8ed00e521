// Sessions in files: a digest of the configuration, then for each row its ids, its mark and the
// kept positions of every owner in the order of positions. So a session may be restored with rings
// of another size, as long as they keep enough. Little-endian numbers of this machine, checked on
// reading.
#include <fstream>
#include <limits>

#include "cuda/engine.h"
#include "cuda/forward.h"
#include "reference/error.h"

namespace kvconform::cuda::inline DV_MACHINE {
namespace {

constexpr std::int64_t kMagic = 0x3253534541444356;  // "VCDAESS2"

[[noreturn]] void refuse(const std::string& problem) {
  throw Error("KV1523", "saved session: " + problem,
              "restore a file that `save` wrote for the same model");
}

void write(std::ostream& out, std::int64_t value) {
  out.write(reinterpret_cast<const char*>(&value), sizeof value);
}

std::int64_t read(std::istream& in, std::int64_t low, std::int64_t high, const char* what) {
  std::int64_t value = 0;
  if (!in.read(reinterpret_cast<char*>(&value), sizeof value)) refuse("the file ends early");
  if (value < low || value > high)
    refuse(std::string(what) + " is " + std::to_string(value) + ", expected " +
           std::to_string(low) + " to " + std::to_string(high));
  return value;
}

void write(std::ostream& out, const std::vector<float>& numbers) {
  out.write(reinterpret_cast<const char*>(numbers.data()),
            std::streamsize(numbers.size() * sizeof(float)));
}

void read(std::istream& in, std::vector<float>& numbers) {
  if (!in.read(reinterpret_cast<char*>(numbers.data()),
               std::streamsize(numbers.size() * sizeof(float))))
    refuse("the file ends early");
}

}  // namespace

void Session::save(const std::filesystem::path& file) const {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  write(out, kMagic);
  write(out, std::int64_t(engine_->digest()));
  write(out, batch());
  write(out, options_.capacity);
  write(out, options_.start);
  for (int r = 0; r < batch(); ++r) {
    write(out, length(r));
    write(out, rows_[r].mark);
    for (int id : rows_[r].ids) write(out, id);
    for (const LayerPlan& layer : engine_->plan()) {
      if (!layer.owns_keys()) continue;
      std::vector<float> keys(layer.key_value_heads * layer.head_dim), values(keys.size());
      const int first = std::min(length(r), first_kept(layer, rows_[r]));
      write(out, first);
      for (int p = first; p < length(r); ++p) {
        store_.read(layer, r, options_.start + p, keys.data(), values.data());
        write(out, keys);
        write(out, values);
      }
    }
  }
  if (!out.flush())
    throw HarnessError("KV1524", "saving a session to " + file.string() + " failed",
                       "check the path and the disk's free space");
}

std::unique_ptr<Session> Session::restore(std::shared_ptr<const Engine> engine,
                                          const SessionOptions& options,
                                          const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) refuse("cannot read " + file.string());
  read(in, kMagic, kMagic, "the first number");
  const auto digest = std::int64_t(engine->digest());
  read(in, digest, digest, "the digest of the configuration");
  SessionOptions shape = options;
  shape.batch = int(read(in, 1, 1 << 16, "the batch"));
  const int capacity = int(read(in, 0, 1 << 28, "the capacity"));
  if (shape.capacity == 0) shape.capacity = capacity;
  shape.start = int(read(in, 0, std::numeric_limits<int>::max() - shape.capacity, "the start"));
  auto session = std::make_unique<Session>(engine, shape);
  for (int r = 0; r < shape.batch; ++r) {
    Row& row = session->rows_[r];
    const int length = int(read(in, 0, shape.capacity, "a row's length"));
    row.mark = int(read(in, length, 1 << 28, "a row's mark"));
    for (int i = 0; i < length; ++i)
      row.ids.push_back(int(read(in, 0, engine->config().vocab_size - 1, "a token")));
    for (const LayerPlan& layer : engine->plan()) {
      if (!layer.owns_keys()) continue;
      std::vector<float> keys(layer.key_value_heads * layer.head_dim), values(keys.size());
      const int first = int(read(in, 0, length, "a layer's first position"));
      if (layer.window > 0 && !shape.everything && first > session->first_kept(layer, row))
        row.mark = std::max(row.mark, first + layer.window - 1 + shape.reserve);
      for (int p = first; p < length; ++p) {
        read(in, keys);
        read(in, values);
        session->store_.write(layer, r, shape.start + p, keys.data(), values.data());
      }
    }
  }
  return session;
}

}  // namespace kvconform::cuda::inline DV_MACHINE
