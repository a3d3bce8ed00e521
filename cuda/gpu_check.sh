#!/usr/bin/env bash
# On a machine with a GPU and nvcc 13: everything that only hardware can show, in one run of under 8 minutes. Exit
# code: how many checks failed.
#   cuda/gpu_check.sh [BUILD_DIR]
set -u
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1
build=${1:-build/gpu}
failures=0
check() {
  local start=$SECONDS
  echo "== $1"
  shift
  "$@" || { failures=$((failures + 1)); echo '   FAILED'; }
  echo "   $((SECONDS - start)) s"
}

command -v nvcc >/dev/null || PATH=$PATH:/usr/local/cuda/bin
architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
cmake -S . -B "$build" -G Ninja -D CMAKE_BUILD_TYPE=Release -D KVCONFORM_GPU=ON \
  -D KVCONFORM_GPU_ARCHITECTURES="${architecture:-native}-real" >/dev/null &&
  cmake --build "$build" -j "$(nproc)" --target cuda_gpu kvconform || exit 1

check 'the parts: sums, elementary functions' "$build/cuda/gpu/gpu_canonical_test"
check 'products: the same bits for every form' "$build/cuda/gpu/gpu_projection_test"
check 'attention: the same bits for every form and ring' "$build/cuda/gpu/gpu_attention_test"
check 'the engine: the same bits for any life of a session' "$build/cuda/gpu/gpu_engine_test"
check 'the bits that emulated threads predicted' "$build/kvconform" golden verify --subject cuda:gpu
check 'every property' "$build/kvconform" check --subject cuda:gpu --seconds 60
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck synccheck initcheck; do
    for test in projection attention; do
      check "compute-sanitizer $tool, $test" timeout 60 compute-sanitizer --tool "$tool" \
        --error-exitcode 1 "$build/cuda/gpu/gpu_${test}_test"
    done
  done
else
  echo '== compute-sanitizer is missing: not run'
fi
echo "$failures failures after $SECONDS s"
exit "$failures"
