// Runs a grid of CUDA blocks on the CPU: one fiber per CUDA thread, blocks spread
// over OS threads. Knows barriers, warp collectives, cooperative grids and the order in which
// threads run; knows no arithmetic and no memory model (see access_observer.h). A barrier or
// collective that cannot complete ends the launch with an Error that lists the blocked threads with
// file and line.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/emulator/fiber.h"

// The emulator's own code must stay invisible to the instrumentation that watches kernels.
#define EMU_UNWATCHED __attribute__((no_sanitize("thread")))

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr uint64_t count() const { return uint64_t(x) * y * z; }
};

namespace dv::emu {

enum class Schedule {
  fifo,
  reverse,
  random
};  // which runnable thread goes next, and the block order
struct Options {
  Schedule schedule = Schedule::fifo;
  uint64_t seed = 1;
  int workers = 1;  // OS threads that share the blocks of a launch; 0 = one per core
  size_t stack_bytes = 64 * 1024;
  bool poison_shared = true;   // shared memory starts as 0xFF bytes: NaN as bf16 and as float
  bool strict_barrier = true;  // every thread of the block must reach the same __syncthreads
  bool late_async_copy =
      true;            // cp.async lands at its wait; until then the destination is poisoned
  bool timed = false;  // keep the books of profile()
};
Options& options();  // of this OS thread

// What the launches of this OS thread cost, by the name of the kernel.
struct Cost {
  uint64_t launches = 0, blocks = 0, threads = 0;
  double seconds = 0;  // of CPU
};
using Profile = std::map<std::string, Cost>;
Profile& profile();

struct Error : std::runtime_error {
  using runtime_error::runtime_error;
};
[[noreturn]] void fail(const std::string& what);

struct Location {
  const char* file = nullptr;
  int line = 0;
};

struct AsyncCopy {
  void* destination;
  const void* source;
  bool valid;
};

struct Warp;
struct Block;
enum class State : uint8_t { runnable, at_barrier, in_collective, at_grid_sync, exited };

struct Fiber {
  FiberStack stack;
  State state = State::exited;
  uint3 thread_index{};
  int linear = 0, lane = 0;
  Warp* warp = nullptr;
  Block* block = nullptr;
  Location location;  // last synchronisation point
  // warp collective in progress
  uint32_t mask = 0, operation = 0;
  const void* input = nullptr;
  void* output = nullptr;
  int argument = 0;
  int vote = 0;  // result of __syncthreads_or (bit 0) and _and (bit 1)
  std::vector<AsyncCopy> uncommitted;
  std::vector<std::vector<AsyncCopy>> in_flight;
  // logical time, for the race checker
  uint32_t grid_epoch = 0, block_epoch = 0, warp_epoch = 0;
};

struct Warp {
  Fiber* lane[32] = {};
  uint32_t alive = 0, waiting = 0;
};

struct Block {
  uint3 index{};
  int size = 0, alive = 0, arrived = 0;
  int any = 0, all = 1;
  std::vector<Fiber*> fibers;
  std::vector<Warp> warps;
  unsigned char* shared = nullptr;
  size_t shared_bytes = 0;
  uint32_t serial = 0;  // unique over all launches
};

// One OS thread's share of a launch.
struct Worker {
  Options options;
  dim3 grid, block_size;
  const std::function<void()>* kernel = nullptr;
  std::vector<std::unique_ptr<Fiber>> pool;  // stacks survive between launches
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<unsigned char> arena;  // shared memory of the resident blocks
  std::vector<Fiber*> ready;
  size_t ready_head = 0;
  Fiber os_thread;
  Fiber* current = nullptr;
  int alive = 0, at_grid_sync = 0;
  uint64_t random_state = 1;
  std::string error;

  ~Worker();
  uint64_t random();
  void make_ready(Fiber*);
  Fiber* next();
  void run_another();  // the current fiber is blocked, queued or done
};

extern constinit thread_local Worker* worker;
inline Fiber& me() {
  return *worker->current;
}

void run_grid(const char* name, dim3 grid, dim3 block, size_t shared_bytes, bool cooperative,
              const std::function<void()>& kernel);
// All given blocks at once (one, except for cooperative launches), to completion, on this OS
// thread.
void run_resident_blocks(Worker&, const uint3* indices, size_t count, size_t shared_bytes,
                         uint32_t serial);

void block_barrier(Location, int predicate = 0);
void grid_barrier(Location);
// The last lane of `mask` to arrive runs `finish`, which fills every lane's output from every
// lane's input.
using Finish = void (*)(Fiber** lanes, uint32_t mask);
void warp_collective(uint32_t mask, uint32_t operation, const void* input, void* output,
                     int argument, Location, Finish finish);

void async_copy16(void* destination, const void* source, bool valid, Location);
void async_copy_commit();
void async_copy_wait(size_t groups_left);

}  // namespace dv::emu
