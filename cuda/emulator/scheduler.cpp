// Fibers, barriers, warp collectives and cp.async of the emulated GPU.
#include "cuda/emulator/scheduler.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cuda/emulator/access_observer.h"

namespace dv::emu {

constinit thread_local Worker* worker = nullptr;
constinit thread_local Observer* observer = nullptr;

void fail(const std::string& what) {
  throw Error(what);
}

namespace {

std::string describe(const Fiber& f) {
  static const char* const names[] = {"runnable", "__syncthreads", "warp collective", "grid_sync",
                                      "exited"};
  const char* file = f.location.file ? f.location.file : "?";
  if (const char* slash = strrchr(file, '/')) file = slash + 1;
  char text[256];
  snprintf(text, sizeof text,
           "  block(%u,%u,%u) thread %d (warp %d lane %d): %s at %s:%d mask=%08x\n",
           f.block->index.x, f.block->index.y, f.block->index.z, f.linear, f.linear / 32, f.lane,
           names[int(f.state)], file, f.location.line, f.mask);
  return text;
}

void note_error(Worker& w, std::string what) {
  if (w.error.empty()) w.error = std::move(what);
}

void check_strict_barrier(Worker& w, const Block& b) {
  const Fiber* first = nullptr;
  for (const Fiber* f : b.fibers) {
    if (f->state != State::at_barrier) continue;
    if (!first) first = f;
    if (f->location.line != first->location.line) {
      note_error(w,
                 "divergent barrier: different __syncthreads\n" + describe(*first) + describe(*f));
    }
  }
  if (b.alive != b.size) {
    note_error(w, "divergent barrier: " + std::to_string(b.size - b.alive) +
                      " thread(s) of the block exited without reaching it\n" + describe(*first));
  }
}

void release_barrier(Block& b) {
  Worker& w = *worker;
  if (w.options.strict_barrier) check_strict_barrier(w, b);
  if (observer) observer->barrier(b);
  const int vote = b.any | b.all << 1;
  b.arrived = 0;
  b.any = 0;
  b.all = 1;
  for (Fiber* f : b.fibers) {
    if (f->state != State::at_barrier) continue;
    ++f->block_epoch;
    f->vote = vote;
    w.make_ready(f);
  }
}

void release_grid_if_complete(Worker& w) {
  if (w.at_grid_sync == 0 || w.at_grid_sync != w.alive) return;
  w.at_grid_sync = 0;
  for (auto& b : w.blocks) {
    for (Fiber* f : b->fibers) {
      if (f->state != State::at_grid_sync) continue;
      ++f->grid_epoch;
      ++f->block_epoch;
      w.make_ready(f);
    }
  }
}

// One CUDA thread's whole life. Never inlined into the endless loop below: `worker` is
// thread-local, and a recycled fiber may continue on another OS thread, so its address must be
// computed afresh every time.
__attribute__((noinline)) void run_thread() {
  try {
    (*worker->kernel)();
  } catch (const std::exception& e) {
    note_error(*worker, e.what());
  }
  Worker& w = *worker;
  Fiber& f = *w.current;
  Block& b = *f.block;
  bool copies_left = !f.uncommitted.empty();
  for (const auto& group : f.in_flight) copies_left |= !group.empty();
  if (copies_left) note_error(w, "a thread exited with cp.async still in flight\n" + describe(f));
  f.uncommitted.clear();
  f.in_flight.clear();
  f.state = State::exited;
  --b.alive;
  --w.alive;
  f.warp->alive &= ~(1u << f.lane);
  if (b.arrived && b.arrived == b.alive)
    release_barrier(b);  // exited threads count as arrived, as since sm_70
  release_grid_if_complete(w);
  w.run_another();
}

void fiber_entry() {
  announce_fresh_stack();
  for (;;) run_thread();
}

void start_thread(Worker& w, Block& b, size_t first_fiber, int t) {
  Fiber* f = w.pool[first_fiber + t].get();
  b.fibers[t] = f;
  f->block = &b;
  f->linear = t;
  f->lane = t % 32;
  f->warp = &b.warps[t / 32];
  const unsigned u = unsigned(t);
  f->thread_index = {u % w.block_size.x, u / w.block_size.x % w.block_size.y,
                     u / (w.block_size.x * w.block_size.y)};
  f->warp->lane[f->lane] = f;
  f->warp->alive |= 1u << f->lane;
  f->grid_epoch = f->block_epoch = f->warp_epoch = 0;
  f->location = {};
  f->mask = 0;
  w.make_ready(f);
}

void prepare_resident_blocks(Worker& w, const uint3* indices, size_t count, size_t shared_bytes,
                             uint32_t first_serial) {
  const size_t threads = w.block_size.count();
  while (w.pool.size() < threads * count) {
    auto f = std::make_unique<Fiber>();
    create_stack(f->stack, w.options.stack_bytes, fiber_entry);
    w.pool.push_back(std::move(f));
  }
  while (w.blocks.size() < count) w.blocks.push_back(std::make_unique<Block>());
  w.blocks.resize(count);
  const size_t pitch = (shared_bytes + 255) & ~size_t(127);
  if (w.arena.size() < pitch * count + 128) w.arena.resize(pitch * count + 128);
  auto* base = reinterpret_cast<unsigned char*>(
      (reinterpret_cast<uintptr_t>(w.arena.data()) + 127) & ~uintptr_t(127));
  if (w.options.poison_shared) memset(base, 0xff, pitch * count);
  w.ready.clear();
  w.ready_head = 0;
  w.alive = int(threads * count);
  w.at_grid_sync = 0;
  for (size_t i = 0; i < count; ++i) {
    Block& b = *w.blocks[i];
    b.index = indices[i];
    b.size = b.alive = int(threads);
    b.arrived = b.any = 0;
    b.all = 1;
    b.shared = base + pitch * i;
    b.shared_bytes = shared_bytes;
    b.serial = first_serial + uint32_t(i);
    b.fibers.resize(threads);
    b.warps.assign((threads + 31) / 32, Warp{});
    for (int t = 0; t < b.size; ++t) start_thread(w, b, i * threads, t);
    if (observer) observer->block_begins(b);
  }
}

[[noreturn]] void report_blocked_threads(Worker& w) {
  std::string text =
      "deadlock or divergent synchronisation: " + std::to_string(w.alive) + " thread(s) blocked\n";
  int shown = 0;
  for (auto& b : w.blocks) {
    for (Fiber* f : b->fibers) {
      if (f->state != State::exited && shown++ < 6) text += describe(*f);
    }
  }
  fail(text);
}

}  // namespace

Worker::~Worker() {
  for (auto& f : pool) destroy_stack(f->stack);
}
uint64_t Worker::random() {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}
void Worker::make_ready(Fiber* f) {
  f->state = State::runnable;
  ready.push_back(f);
}
Fiber* Worker::next() {
  if (options.schedule == Schedule::fifo) {
    Fiber* f = ready_head < ready.size() ? ready[ready_head++] : nullptr;
    if (ready_head == ready.size()) {
      ready.clear();
      ready_head = 0;
    }
    return f;
  }
  if (ready.empty()) return nullptr;
  if (options.schedule == Schedule::random) std::swap(ready[random() % ready.size()], ready.back());
  Fiber* f = ready.back();
  ready.pop_back();
  return f;
}
void Worker::run_another() {
  Fiber* const from = current;
  Fiber* to = next();
  if (!to) to = &os_thread;  // all done, or deadlock: the launcher decides
  if (to == from) return;
  current = to;
  switch_stack(from->stack, to->stack);
}

void run_resident_blocks(Worker& w, const uint3* indices, size_t count, size_t shared_bytes,
                         uint32_t serial) {
  prepare_resident_blocks(w, indices, count, shared_bytes, serial);
  w.current = w.next();
  switch_stack(w.os_thread.stack, w.current->stack);
  if (observer)
    for (auto& b : w.blocks) observer->block_ends(*b);
  if (w.error.empty() && w.alive == 0) return;
  struct DropStacks {  // blocked fibers cannot be reused
    Worker& w;
    ~DropStacks() {
      for (auto& f : w.pool) destroy_stack(f->stack);
      w.pool.clear();
      w.error.clear();
    }
  } drop{w};
  if (!w.error.empty()) fail(w.error);
  report_blocked_threads(w);
}

void block_barrier(Location where, int predicate) {
  Worker& w = *worker;
  Fiber& f = *w.current;
  Block& b = *f.block;
  f.location = where;
  f.state = State::at_barrier;
  b.any |= predicate != 0;
  b.all &= predicate != 0;
  if (++b.arrived == b.alive) release_barrier(b);
  w.run_another();
}

void grid_barrier(Location where) {
  Worker& w = *worker;
  Fiber& f = *w.current;
  f.location = where;
  f.state = State::at_grid_sync;
  ++w.at_grid_sync;
  release_grid_if_complete(w);
  w.run_another();
}

void warp_collective(uint32_t mask, uint32_t operation, const void* input, void* output,
                     int argument, Location where, Finish finish) {
  Worker& w = *worker;
  Fiber& f = *w.current;
  Warp& warp = *f.warp;
  const uint32_t own_bit = 1u << f.lane;
  f.location = where;
  f.mask = mask;
  if (!(mask & own_bit))
    fail("warp collective: the calling lane is not in its mask\n" + describe(f));
  f.operation = operation;
  f.input = input;
  f.output = output;
  f.argument = argument;
  warp.waiting |= own_bit;
  bool complete = (warp.waiting & mask) == mask;
  for (uint32_t m = mask; complete && m; m &= m - 1) {
    const Fiber& other = *warp.lane[std::countr_zero(m)];
    complete = other.mask == mask && other.operation == operation;
  }
  if (!complete) {
    f.state = State::in_collective;
    w.run_another();
    return;
  }
  finish(warp.lane, mask);
  warp.waiting &= ~mask;
  for (uint32_t m = mask & ~own_bit; m; m &= m - 1) w.make_ready(warp.lane[std::countr_zero(m)]);
  if (w.options.schedule != Schedule::fifo) {  // fifo lets the last lane run on: fewer switches
    w.make_ready(&f);
    w.run_another();
  }
}

namespace {
void perform(const AsyncCopy& c) {
  if (c.valid)
    memcpy(c.destination, c.source, 16);
  else
    memset(c.destination, 0, 16);
}
}  // namespace

void async_copy16(void* destination, const void* source, bool valid, Location where) {
  Fiber& f = me();
  auto* d = static_cast<unsigned char*>(destination);
  if (d < f.block->shared || d + 16 > f.block->shared + f.block->shared_bytes) {
    fail("cp.async: the destination is outside shared memory");
  }
  if ((reinterpret_cast<uintptr_t>(d) & 15) ||
      (valid && (reinterpret_cast<uintptr_t>(source) & 15))) {
    fail("cp.async: an address is not 16-byte aligned");
  }
  observe(destination, 16, Access::write, where);
  if (valid) observe(source, 16, Access::read, where);
  const AsyncCopy copy{destination, source, valid};
  if (worker->options.late_async_copy)
    memset(destination, 0xff, 16);
  else
    perform(copy);
  f.uncommitted.push_back(copy);
}

void async_copy_commit() {
  Fiber& f = me();
  f.in_flight.push_back(std::move(f.uncommitted));
  f.uncommitted.clear();
}

void async_copy_wait(size_t groups_left) {
  Fiber& f = me();
  while (f.in_flight.size() > groups_left) {
    for (const AsyncCopy& c : f.in_flight.front()) {
      if (worker->options.late_async_copy) perform(c);
      observe(c.destination, 16, Access::async_copy_done, {});
    }
    f.in_flight.erase(f.in_flight.begin());
  }
}

}  // namespace dv::emu
