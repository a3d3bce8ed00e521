#!/usr/bin/env bash
# Compiles every kernel for sm_80, 90, 100 and 120 and fails on a warning, a spill or a stack frame. Needs nvcc 13 and
# no GPU; exit code 77 (not run) without nvcc.
#   gpu_compile_test.sh SOURCE_DIR KERNEL.cu...
set -u
source_dir=$1
shift
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[ -x "$nvcc" ] || { echo 'no nvcc: kernels were not compiled for a GPU'; exit 77; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
failures=0 kernels=0
for kernel in "$@" "$source_dir/cuda/gpu/memory_gpu.cu"; do
  log=$out/$(basename "$kernel").log
  "$nvcc" -std=c++20 -fmad=false -I"$source_dir" -Xptxas -v -Xptxas --warn-on-spills \
    -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 \
    -gencode arch=compute_100,code=sm_100 -gencode arch=compute_120,code=sm_120 \
    -c "$kernel" -o "$out/kernel.o" >"$log" 2>&1 || { cat "$log"; failures=$((failures + 1)); continue; }
  kernels=$((kernels + $(grep -c 'stack frame' "$log")))
  if grep -i warning "$log" ||
     grep 'stack frame' "$log" | grep -v ' 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads'; then
    echo "  in $kernel"
    failures=$((failures + 1))
  fi
done
[ "$kernels" -gt 0 ] || { echo 'ptxas reported no kernel'; exit 1; }
echo "$kernels kernels (four architectures), $failures files with findings"
exit $((failures != 0))
