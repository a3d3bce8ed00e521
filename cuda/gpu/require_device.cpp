// main of tests on a GPU: exit code 77 (not run) where there is none.
#include <gtest/gtest.h>

#include <cstdio>

#include "cuda/device/memory.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (dv::device_count() == 0) {
    std::printf("no CUDA device: nothing was run\n");
    return 77;
  }
  return RUN_ALL_TESTS();
}
