// Which of the two machines a file is compiled for. Everything of the device layer, the kernels and
// the engine stands in an inline namespace of this name, so that one program can hold both.
#pragma once

#if defined(__CUDACC__) || defined(KVCONFORM_GPU_SIDE)
#define DV_MACHINE gpu
#else
#define DV_MACHINE emulated
#endif
