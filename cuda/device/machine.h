// Which of the machines a file is compiled for. Everything of the device layer, the kernels and the
// engine stands in an inline namespace of this name, so that one program can hold several:
//
//   gpu        real devices
//   emulated   emulated threads: the kernels that ship, without a trace of faults and checks
//   planted    emulated threads once more: kernels with every planted fault, to be chosen at run
//              time, and with every memory access open to the race checker
//
// A second namespace in one program, rather than a second program that is talked to: no process, no
// protocol and no files between a case and its verdict.
// Memory is the same for both emulated machines: DV_MEMORY.
#pragma once

#if defined(__CUDACC__) || defined(KVCONFORM_GPU_SIDE)
#define DV_MACHINE gpu
#define DV_MEMORY gpu
#elif defined(KVCONFORM_PLANTED_SIDE)
#define DV_MACHINE planted
#define DV_MEMORY emulated
#else
#define DV_MACHINE emulated
#define DV_MEMORY emulated
#endif
