// A launch on emulated threads: the order of its blocks, the OS threads that share them, what it
// cost. Errors of a kernel end the launch and are thrown here.
#include <time.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "cuda/emulator/access_observer.h"

namespace dv::emu {

Options& options() {
  thread_local Options o;
  return o;
}
Profile& profile() {
  thread_local Profile p;
  return p;
}

namespace {

// Of this OS thread: what others on the machine do must not show.
double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

// Fibers and their stacks survive between the launches of an OS thread.
Worker& worker_of_this_thread(size_t stack_bytes) {
  thread_local std::unique_ptr<Worker> own;
  if (!own || own->options.stack_bytes != stack_bytes) own = std::make_unique<Worker>();
  return *own;
}

void order_blocks(std::vector<uint3>& order, dim3 grid, const Options& o) {
  order.clear();
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) order.push_back({x, y, z});
  if (o.schedule == Schedule::reverse) std::reverse(order.begin(), order.end());
  if (o.schedule == Schedule::random) {
    Worker dice;
    dice.random_state = o.seed * 0x9E3779B97F4A7C15ull + 1;
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[dice.random() % i]);
  }
}

struct Share {
  dim3 grid, block;
  size_t shared_bytes;
  bool cooperative;
  const std::function<void()>& kernel;
  const Options& options;
  const std::vector<uint3>& order;
  uint32_t first_serial;
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::string error;
};

void run_share(Share& l, int worker_index) {
  Worker& w = worker_of_this_thread(l.options.stack_bytes);
  w.options = l.options;
  w.grid = l.grid;
  w.block_size = l.block;
  w.kernel = &l.kernel;
  w.random_state = l.options.seed * 0xD1342543DE82EF95ull + 0x9E37 + unsigned(worker_index);
  Worker* const outer = worker;
  worker = &w;
  try {
    if (l.cooperative) {
      run_resident_blocks(w, l.order.data(), l.order.size(), l.shared_bytes, l.first_serial);
    } else {
      for (size_t i; (i = l.next.fetch_add(1)) < l.order.size();) {
        run_resident_blocks(w, &l.order[i], 1, l.shared_bytes, l.first_serial + uint32_t(i));
      }
    }
  } catch (const std::exception& e) {
    std::lock_guard lock(l.mutex);
    if (l.error.empty()) l.error = e.what();
    l.next = l.order.size();
  }
  worker = outer;
}

void run_shares(Share& l) {
  int workers = l.options.workers ? l.options.workers : int(std::thread::hardware_concurrency());
  if (l.cooperative || observer) workers = 1;
  workers = int(std::min<uint64_t>(uint64_t(workers), l.order.size()));
  std::vector<std::thread> helpers;
  for (int i = 1; i < workers; ++i) helpers.emplace_back(run_share, std::ref(l), i);
  run_share(l, 0);
  for (auto& t : helpers) t.join();
}

}  // namespace

void run_grid(const char* name, dim3 grid, dim3 block, size_t shared_bytes, bool cooperative,
              const std::function<void()>& kernel) {
  const std::string kernel_name = name;
  if (block.count() == 0 || block.count() > 1024 || grid.count() == 0) {
    fail(kernel_name + ": a block has 1 to 1024 threads and a grid at least one block");
  }
  if (shared_bytes > 227 * 1024) fail(kernel_name + ": more than 227 KiB of shared memory");
  static std::atomic<uint32_t> serial{1};
  thread_local std::vector<uint3> order;
  const Options o = options();
  order_blocks(order, grid, o);
  Share l{grid,
          block,
          shared_bytes,
          cooperative,
          kernel,
          o,
          order,
          serial.fetch_add(uint32_t(grid.count())),
          {},
          {},
          {}};
  if (observer) {
    observer->kernel_begins(name, grid, block);
    observer->launch_begins(l.first_serial);
  }
  const double begin = o.timed ? cpu_seconds() : 0;
  run_shares(l);
  if (o.timed) {
    Cost& cost = profile()[kernel_name];
    ++cost.launches;
    cost.blocks += grid.count();
    cost.threads += grid.count() * block.count();
    cost.seconds += cpu_seconds() - begin;
  }
  if (!l.error.empty()) fail(kernel_name + ": " + l.error);
}

}  // namespace dv::emu
