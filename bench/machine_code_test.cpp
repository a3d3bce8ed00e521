// Reading what ptxas and cuobjdump print; the text is in their form.
#include "bench/machine_code.h"

#include <gtest/gtest.h>

namespace kvconform::bench {
namespace {

const char* const kKernel =
    "_ZN9kvconform4cuda3gpu44_GLOBAL__N__0b94c2ad_11_rms_norm_cu_7f914a2a15rms_norm_"
    "kernelILNS1_4TeamE1EEEvNS1_7RmsNormE";

TEST(Ptxas, gives_registers_spills_and_stack_by_architecture) {
  const std::string text =
      std::string(
          "ptxas info    : 0 bytes gmem\n"
          "ptxas info    : Compiling entry function '") +
      kKernel + "' for 'sm_80'\n" + "ptxas info    : Function properties for " + kKernel + "\n" +
      "    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads\n"
      "ptxas info    : Used 30 registers, used 1 barriers, 2048 bytes smem, 424 bytes cmem[0]\n"
      "ptxas info    : Compile time = 215.980 ms\n"
      "ptxas info    : Compiling entry function '" +
      kKernel + "' for 'sm_90'\n" +
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 28 registers, used 0 barriers, 424 bytes cmem[0]\n";
  const auto kernels = read_ptxas(text);
  ASSERT_EQ(kernels.size(), 2u);
  const KernelNumbers first = kernels.at({"sm_80", kKernel});
  EXPECT_EQ(first.at("registers"), 30);
  EXPECT_EQ(first.at("spill_bytes"), 20);
  EXPECT_EQ(first.at("stack_bytes"), 16);
  EXPECT_EQ(first.at("shared_bytes"), 2048);
  EXPECT_EQ(kernels.at({"sm_90", kKernel}).at("registers"), 28);
  EXPECT_EQ(kernels.at({"sm_90", kKernel}).at("spill_bytes"), 0);
}

TEST(Sass, gives_the_mix_of_instructions) {
  const std::string text =
      "\tcode for sm_80\n"
      "\t\tFunction : kernel\n"
      "\t.headerflags\t@\"EF_CUDA_TEXMODE_UNIFIED\"\n"
      "        /*0000*/                   MOV R1, c[0x0][0x28] ;    /* 0x00000a0000017a02 */\n"
      "                                                             /* 0x000fc40000000f00 */\n"
      "        /*0010*/              @!P0 LDG.E R2, [R4.64] ;       /* 0x0000000402027981 */\n"
      "        /*0020*/                   FFMA R2, R2, R3, R4 ;     /* 0x0000000302027223 */\n"
      "        /*0030*/              @P1  BRA 0x10 ;                /* 0xffffffd000001947 */\n"
      "        /*0040*/                   BAR.SYNC 0x0 ;            /* 0x0000000000007b1d */\n"
      "        /*0050*/                   STS [R2], R3 ;            /* 0x0000000302007388 */\n"
      "        /*0060*/                   STG.E [R4.64], R2 ;       /* 0x0000000204007986 */\n"
      "        /*0070*/                   HMMA.16816.F32 R4, R8, R12, R4 ; /* 0x0000000c0804723c "
      "*/\n"
      "        /*0080*/                   EXIT ;                    /* 0x000000000000794d */\n"
      "        /*0090*/                   NOP ;                     /* 0x0000000000007918 */\n";
  const auto kernels = read_sass(text);
  ASSERT_EQ(kernels.size(), 1u);
  const KernelNumbers mix = kernels.at({"sm_80", "kernel"});
  EXPECT_EQ(mix.at("instructions"), 9);  // without the padding
  EXPECT_EQ(mix.at("instructions_global_load"), 1);
  EXPECT_EQ(mix.at("instructions_global_store"), 1);
  EXPECT_EQ(mix.at("instructions_multiply_add"), 1);
  EXPECT_EQ(mix.at("instructions_shared"), 1);
  EXPECT_EQ(mix.at("instructions_barrier"), 1);
  EXPECT_EQ(mix.at("instructions_branch"), 1);
  EXPECT_EQ(mix.at("instructions_matrix"), 1);
}

TEST(KernelNames, hold_no_hash_of_a_path) {
  EXPECT_EQ(readable_kernel(kKernel), "rms_norm_kernel<(Team)1>");
  EXPECT_EQ(readable_kernel("no mangled name"), "no mangled name");
}

}  // namespace
}  // namespace kvconform::bench
