// The kernel counter against numbers that follow from the access pattern alone. Only the explicit
// primitives are used, so that this file needs no instrumentation.
#include "cuda/emulator/kernel_counter.h"

#include <gtest/gtest.h>

#include "cuda/device/device.h"
#include "cuda/device/device_array.h"

namespace {

struct Line {
  uint4 word[64];
};

// 32 threads read 16 bytes each, `stride` apart, meet twice, and one of four writes.
void strided(const unsigned char* from, unsigned char* to, int stride) {
  auto& s = dv::shared<Line>();
  const uint4 v = dv::ld128(from + 16 * stride * threadIdx.x);
  dv::st128(&s.word[threadIdx.x], v);
  __syncthreads();
  __syncthreads();
  if (threadIdx.x % 4 == 0) dv::st128(to + 16 * threadIdx.x, s.word[threadIdx.x]);
}

dv::emu::KernelCounts counts_of_strided(int stride, int launches = 1, int blocks = 1) {
  const dv::DeviceArray<unsigned char> from(0, 32 * 16 * 4, "from"), to(0, 32 * 16, "to");
  dv::emu::KernelCounter counter;
  for (int i = 0; i < launches; ++i)
    dv::launch(strided, {"strided", dim3(blocks), dim3(32), sizeof(Line)}, from.data(), to.data(),
               stride);
  return counter.counts().at("strided");
}

TEST(KernelCounter, counts_sectors_of_requests) {
  const dv::emu::KernelCounts dense = counts_of_strided(1), sparse = counts_of_strided(4);
  EXPECT_EQ(dense.read_requests, 1u);
  EXPECT_EQ(dense.read_sectors, 16u);  // 512 bytes
  EXPECT_EQ(dense.read_sectors_ideal, 16u);
  EXPECT_EQ(sparse.read_sectors, 32u);  // half of each sector is not asked for
  EXPECT_EQ(sparse.read_sectors_ideal, 16u);
  EXPECT_EQ(dense.write_sectors, 8u);  // 8 threads, each a sector of its own
  EXPECT_EQ(dense.write_sectors_ideal, 4u);
}

TEST(KernelCounter, counts_a_sector_once_a_launch_among_the_distinct) {
  const dv::emu::KernelCounts once = counts_of_strided(1), twice = counts_of_strided(1, 2);
  const dv::emu::KernelCounts blocks = counts_of_strided(1, 1, 3);
  EXPECT_EQ(once.distinct_read_sectors, 16u);
  EXPECT_EQ(twice.distinct_read_sectors, 32u);
  EXPECT_EQ(blocks.distinct_read_sectors, 16u);  // three blocks read the same
  EXPECT_EQ(blocks.read_sectors, 48u);
  EXPECT_EQ(blocks.distinct_write_sectors, 8u);
}

TEST(KernelCounter, counts_launches_blocks_threads_and_barriers) {
  const dv::emu::KernelCounts counts = counts_of_strided(1, 2, 3);
  EXPECT_EQ(counts.launches, 2u);
  EXPECT_EQ(counts.blocks, 6u);
  EXPECT_EQ(counts.threads, 192u);
  EXPECT_EQ(counts.barriers, 12u);
}

TEST(KernelCounter, counts_passes_through_shared_memory) {
  const dv::emu::KernelCounts counts = counts_of_strided(1);
  EXPECT_EQ(counts.shared_passes, 4u);  // 32 lanes of 16 bytes, 8 lanes at a time
  EXPECT_EQ(counts.bank_conflicts(), 0u);
}

TEST(KernelCounter, sorts_by_kernel_and_adds_up) {
  const dv::DeviceArray<unsigned char> from(0, 32 * 16, "from"), to(0, 32 * 16, "to");
  dv::emu::KernelCounter counter;
  for (const char* name : {"one", "two", "two"})
    dv::launch(strided, {name, dim3(1), dim3(32), sizeof(Line)}, from.data(), to.data(), 1);
  EXPECT_EQ(counter.counts().at("one").read_sectors, 16u);
  EXPECT_EQ(counter.counts().at("two").read_sectors, 32u);
  EXPECT_EQ(counter.total().read_sectors, 48u);
  EXPECT_TRUE(counter.wasteful_lines("three").empty());
  EXPECT_EQ(counter.wasteful_lines("one").size(), 1u);  // the sparse store
}

}  // namespace
