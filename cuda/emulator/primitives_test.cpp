// Wrong synchronisation is reported with its place; the race checker sees what barriers order and
// what they do not; the traffic counter counts.
#include <gtest/gtest.h>

#include "cuda/device/device.h"
#include "cuda/device/device_array.h"
#include "cuda/emulator/checked_run.h"

namespace {

struct Words {
  float word[256];
};

template <class Kernel, class... A>
std::string error_of(Kernel kernel, int threads, A... args) {
  try {
    dv::launch(kernel, {"kernel", dim3(1), dim3(threads), sizeof(Words)}, args...);
  } catch (const dv::emu::Error& e) {
    return e.what();
  }
  return "";
}
bool names(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

TEST(Reports, a_shuffle_that_one_lane_skips) {
  const auto kernel = +[](float* p) {
    if (threadIdx.x != 7) p[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.f, 1);
  };
  float out[32];
  const auto e = error_of(kernel, 32, &out[0]);
  EXPECT_TRUE(names(e, "31 thread(s) blocked") && names(e, "primitives_test.cpp:")) << e;
}

TEST(Reports, two_halves_at_different_barriers) {
  const auto kernel = +[](int) {
    if (threadIdx.x < 32)
      __syncthreads();
    else
      __syncthreads();
  };
  EXPECT_TRUE(names(error_of(kernel, 64, 1), "divergent barrier"));
}

TEST(Reports, a_barrier_that_some_threads_left_before) {
  const auto kernel = +[](int) {
    if (threadIdx.x < 32) __syncthreads();
  };
  EXPECT_TRUE(names(error_of(kernel, 64, 1), "exited without reaching it"));
}

TEST(Reports, a_warp_that_waits_for_itself) {
  const auto kernel = +[](int) {
    if (threadIdx.x & 1)
      __syncwarp();
    else
      __syncthreads();
  };
  EXPECT_TRUE(names(error_of(kernel, 32, 1), "deadlock"));
}

TEST(Reports, a_misaligned_wide_load_and_a_copy_nobody_waits_for) {
  const auto load = +[](float* p) { dv::ld128(p + 1); };
  const auto copy = +[](float* p) { dv::cp_async16(&dv::shared<Words>(), p); };
  const dv::DeviceArray<float> x(0, 16, "x");
  EXPECT_TRUE(names(error_of(load, 1, x.data()), "16-byte aligned"));
  EXPECT_TRUE(names(error_of(copy, 1, x.data()), "in flight"));
}

// What the checker sees of these kernels, all compiled with -fsanitize=thread.
template <class Kernel, class... A>
std::vector<std::string> reports_of(Kernel kernel, dim3 blocks, int threads, A... args) {
  dv::emu::CheckedRun run;
  dv::launch(kernel, {"kernel", blocks, dim3(threads), sizeof(Words)}, args...);
  EXPECT_GT(run.accesses(), 0u);
  return run.reports();
}

TEST(RaceChecker, a_barrier_between_write_and_read_is_needed_and_enough) {
  const auto without = +[](float* out) {
    auto& s = dv::shared<Words>();
    s.word[threadIdx.x] = 1.f;
    out[threadIdx.x] = s.word[threadIdx.x ^ 1];
  };
  const auto with = +[](float* out) {
    auto& s = dv::shared<Words>();
    s.word[threadIdx.x] = 1.f;
    __syncthreads();
    out[threadIdx.x] = s.word[threadIdx.x ^ 1];
  };
  const dv::DeviceArray<float> out(0, 64, "out");
  EXPECT_FALSE(reports_of(without, dim3(1), 64, out.data()).empty());
  EXPECT_TRUE(reports_of(with, dim3(1), 64, out.data()).empty());
}

TEST(RaceChecker, reports_two_blocks_that_write_one_word) {
  const auto kernel = +[](float* out) { out[0] = float(blockIdx.x); };
  const dv::DeviceArray<float> out(0, 1, "out");
  const auto reports = reports_of(kernel, dim3(2), 1, out.data());
  ASSERT_FALSE(reports.empty());
  EXPECT_TRUE(names(reports[0], "out+0") && names(reports[0], "primitives_test.cpp:"))
      << reports[0];
}

TEST(RaceChecker, reports_shared_memory_nobody_wrote) {
  const auto kernel = +[](float* out) { out[0] = dv::shared<Words>().word[3]; };
  const dv::DeviceArray<float> out(0, 1, "out");
  const auto reports = reports_of(kernel, dim3(1), 1, out.data());
  ASSERT_FALSE(reports.empty());
  EXPECT_TRUE(names(reports[0], "uninitialised read")) << reports[0];
}

TEST(RaceChecker, reports_leaving_a_buffer_and_another_devices_memory) {
  const auto kernel = +[](float* out, int at) { out[at] = 1.f; };
  const dv::DeviceArray<float> out(0, 5, "five");
  const auto past = reports_of(kernel, dim3(1), 1, out.data(), 5);
  ASSERT_FALSE(past.empty());
  EXPECT_TRUE(names(past[0], "past the end at five+20")) << past[0];
  dv::use_device(1);
  const auto foreign = reports_of(kernel, dim3(1), 1, out.data(), 0);
  dv::use_device(0);
  ASSERT_FALSE(foreign.empty());
  EXPECT_TRUE(names(foreign[0], "another device")) << foreign[0];
}

TEST(TrafficCounter, counts_sectors_and_bank_passes_against_the_fewest_possible) {
  const auto strided = +[](const float* x, float* out) {
    auto& s = dv::shared<Words>();
    s.word[threadIdx.x] = x[threadIdx.x * 8];  // a sector for each lane
    __syncwarp();
    out[threadIdx.x] = s.word[threadIdx.x];
  };
  const dv::DeviceArray<float> x(0, 256, "x"), out(0, 32, "out");
  dv::emu::CheckedRun run(true);
  dv::launch(strided, {"strided", dim3(1), dim3(32), sizeof(Words)}, x.data(), out.data());
  EXPECT_TRUE(run.reports().empty());
  EXPECT_EQ(run.buffer("x").read, 128u);
  const auto waste = run.wasteful_lines();
  ASSERT_EQ(waste.size(), 1u);
  EXPECT_EQ(waste[0].units, 32u);
  EXPECT_EQ(waste[0].ideal, 4u);
}

TEST(Schedules, change_the_order_of_threads_and_nothing_that_is_ordered) {
  const auto kernel = +[](float* out) {
    auto& s = dv::shared<Words>();
    s.word[threadIdx.x] = float(threadIdx.x);
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 64; ++i) sum += s.word[i];
    out[threadIdx.x] = sum;
  };
  for (auto schedule :
       {dv::emu::Schedule::fifo, dv::emu::Schedule::reverse, dv::emu::Schedule::random}) {
    dv::emu::options().schedule = schedule;
    const dv::DeviceArray<float> out(0, 64, "out");
    dv::launch(kernel, {"sum", dim3(1), dim3(64), sizeof(Words)}, out.data());
    for (int i = 0; i < 64; ++i) EXPECT_EQ(out.data()[i], 2016.f);
  }
  dv::emu::options() = {};
}

}  // namespace
