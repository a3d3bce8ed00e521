#!/usr/bin/env bash
# Goldens notice a change and explain it: builds verify_reference with one change in the source, once for each change
# below, and requires that it fails with the right words. The unchanged program must be green.
#
#   planted_changes_test.sh SOURCE_FOLDER WORK_FOLDER COMPILER LIBRARY…      FLAGS: the project's numeric flags
#
# To plant another: an entry in the list below. Patched copies lie in a folder that is searched for headers before the
# source tree; of a definition that a patched object and a library both have, the linker takes the first. Exit code: 0 all
# changes were explained, 1 not.
set -uo pipefail
source_folder=$1 work=$2 compiler=$3
shift 3
libraries=("$@")
jobs=${KVCONFORM_JOBS:-2}
ccache=$(command -v ccache) || ccache=''
mkdir -p "$work"

# label | file to change | sed script | what is compiled | words that verify must print (; between several), the first of
# them also in its last line. `float model` stands for the model in float32 alone.
changes=(
  'constant in the norm|reference/norm.h|s/mean_square(x, n) + S(eps))/mean_square(x, n) + S(2 * eps))/|float model|likely cause: arithmetic: a formula or a constant;the per-layer inputs'
  'swapped rotary base|reference/model.hpp|s/rope_frequencies<N>(layer.rope,/rope_frequencies<N>(layer.window ? config().full_rope : config().sliding_rope,/|float model|likely cause: arithmetic: something that depends on the position;rows at position 0 kept their bits;rotary base 1e+06): attention'
  'weight generator|reference/random_weights.cpp|s/return {1.0F, 0.5F};/return {1.0F, 0.25F};/|reference/random_weights.cpp|likely cause: the weights;tensors are others'
  'config default|reference/model_config.cpp|s/"rms_norm_eps", 1e-6,/"rms_norm_eps", 1e-5,/|reference/model_config.cpp|likely cause: the configuration;rms_norm_eps: 1e-06 was approved, 1e-05 is read now'
  'reordered sum|reference/summation.h|s/for (int half = kSumLanes . 2; half > 0; half .= 2)/for (int l = 1; l < kSumLanes; ++l) lanes[0] = lanes[0] + lanes[l];/; s/for (int l = 0; l < half; ++l) lanes.l. = lanes.l. + lanes.l + half.;//|float model|likely cause: arithmetic: rounding only;equally right'
)

# The model in float32 alone takes half the time of reference/model.cpp to compile.
printf '#include "reference/model.hpp"\nnamespace kvconform {\ntemplate class Model<Float32>;\n}\n' >"$work/float_model.cpp"

# build LABEL FOLDER: verify_reference with what lies in FOLDER in front of the source tree.
build() {
  local folder=$2 objects=() unit
  shift 2
  for unit in "$@"; do
    # shellcheck disable=SC2086  # flags are words
    $ccache "$compiler" -std=c++20 ${FLAGS:-} -O0 -I "$folder" -I "$source_folder" -c "$unit" \
      -o "$folder/$(basename "$unit").o" || return 1
    objects+=("$folder/$(basename "$unit").o")
  done
  "$compiler" "${objects[@]}" "$work/verify_reference.o" -Wl,--allow-multiple-definition -Wl,--start-group \
    "${libraries[@]}" -Wl,--end-group -lsleef -lcrypto -lfmt -lpugixml -pthread -o "$folder/verify_reference"
}

# plant NUMBER: builds and runs one change; what the program prints goes to NUMBER/output, its exit code to NUMBER/code.
plant() {
  local label file script compiled folder=$work/$1
  IFS='|' read -r label file script compiled _ <<<"${changes[$1]}"
  rm -rf "$folder" && mkdir -p "$folder/$(dirname "$file")"
  sed "$script" "$source_folder/$file" >"$folder/$file"
  cmp -s "$source_folder/$file" "$folder/$file" && { echo "the change does not apply to $file"; return 1; }
  if [ "$compiled" = 'float model' ]; then compiled=$work/float_model.cpp; else compiled=$folder/$compiled; fi
  build "$label" "$folder" "$compiled" || return 1
  "$folder/verify_reference" "$source_folder/golden" >"$folder/output" 2>&1
  echo $? >"$folder/code"
}

judge() {
  local label words word missing=''
  IFS='|' read -r label _ _ _ words <<<"${changes[$1]}"
  if [ "$(cat "$work/$1/code" 2>/dev/null)" != 1 ]; then
    printf '%-22s FAILED: verify ended with %s\n' "$label" "$(cat "$work/$1/code" 2>/dev/null || echo 'nothing')"
    tail -n 10 "$work/$1.log" "$work/$1/output" 2>/dev/null
    return 1
  fi
  while read -r -d ';' word; do
    grep -qF "$word" "$work/$1/output" || missing+="
    does not say: $word"
  done <<<"$words;"
  tail -n 1 "$work/$1/output" | grep -qF "${words%%;*}" || missing+="
    does not end with: ${words%%;*}"
  printf '%-22s %s\n' "$label" "$(tail -n 1 "$work/$1/output")"
  [ -z "$missing" ] || { printf 'FAILED:%s\n' "$missing"; head -n 20 "$work/$1/output"; return 1; }
}

start() {
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  "$@" &
}

# shellcheck disable=SC2086  # flags are words
$ccache "$compiler" -std=c++20 ${FLAGS:-} -O0 -I "$source_folder" -c "$source_folder/golden/verify_reference.cpp" \
  -o "$work/verify_reference.o" || exit 1
mkdir -p "$work/unchanged"
build unchanged "$work/unchanged" || exit 1
"$work/unchanged/verify_reference" "$source_folder/golden" >"$work/unchanged/output" 2>&1 ||
  { echo 'the unchanged program is not green:'; head -n 20 "$work/unchanged/output"; exit 1; }
for i in "${!changes[@]}"; do start plant "$i" >"$work/$i.log" 2>&1; done
wait
failed=0
for i in "${!changes[@]}"; do judge "$i" || failed=1; done
exit $failed
