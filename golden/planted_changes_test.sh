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
# them also in its last line. verify_reference.cpp holds the model itself.
changes=(
  'constant in the norm|reference/norm.h|s/mean_square(x, n) + S(eps))/mean_square(x, n) + S(2 * eps))/|golden/verify_reference.cpp|likely cause: arithmetic: a formula or a constant;the per-layer inputs'
  'swapped rotary base|reference/model.hpp|s/rope_frequencies<N>(layer.rope,/rope_frequencies<N>(layer.window ? config().full_rope : config().sliding_rope,/|golden/verify_reference.cpp|likely cause: arithmetic: something that depends on the position;rows at position 0 kept their bits;rotary base 1e+06): attention'
  'weight generator|reference/random_weights.cpp|s/return {1.0F, 0.5F};/return {1.0F, 0.25F};/|reference/random_weights.cpp|likely cause: the weights;tensors are others'
  'config default|reference/model_config.cpp|s/"rms_norm_eps", 1e-6,/"rms_norm_eps", 1e-5,/|reference/model_config.cpp|likely cause: the configuration;rms_norm_eps: 1e-06 was approved, 1e-05 is read now'
  'reordered sum|reference/summation.h|s/for (int half = kSumLanes . 2; half > 0; half .= 2)/for (int l = 1; l < kSumLanes; ++l) lanes[0] = lanes[0] + lanes[l];/; s/for (int l = 0; l < half; ++l) lanes.l. = lanes.l. + lanes.l + half.;//|golden/verify_reference.cpp|likely cause: arithmetic: rounding only;equally right'
)

# compile FOLDER UNIT: one object in FOLDER, whose headers come before those of the source tree.
compile() {
  # shellcheck disable=SC2086  # flags are words
  $ccache "$compiler" -std=c++20 ${FLAGS:-} -O0 -I "$1" -I "$source_folder" -c "$2" -o "$1/$(basename "$2").o"
}

# link_with OBJECT…: verify_reference in the folder of the first. The unchanged program, which comes last, gives what is
# missing.
link_with() {
  "$compiler" "$@" "$work/unchanged/verify_reference.cpp.o" -Wl,--allow-multiple-definition -Wl,--start-group \
    "${libraries[@]}" -Wl,--end-group -lsleef -lcrypto -lfmt -lpugixml -pthread -o "${1%/*}/verify_reference"
}

# plant NUMBER: builds and runs one change; what the program prints goes to NUMBER/output, its exit code to NUMBER/code.
plant() {
  local file script compiled folder=$work/$1
  IFS='|' read -r _ file script compiled _ <<<"${changes[$1]}"
  rm -rf "$folder" && mkdir -p "$folder/$(dirname "$file")"
  sed "$script" "$source_folder/$file" >"$folder/$file"
  cmp -s "$source_folder/$file" "$folder/$file" && { echo "the change does not apply to $file"; return 1; }
  [ "$compiled" = "$file" ] && compiled=$folder/$file || compiled=$source_folder/$compiled
  compile "$folder" "$compiled" && link_with "$folder/$(basename "$compiled").o" || return 1
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

mkdir -p "$work/unchanged"
compile "$work/unchanged" "$source_folder/golden/verify_reference.cpp" &&
  link_with "$work/unchanged/verify_reference.cpp.o" || exit 1
"$work/unchanged/verify_reference" "$source_folder/golden" >"$work/unchanged/output" 2>&1 ||
  { echo 'the unchanged program is not green:'; head -n 20 "$work/unchanged/output"; exit 1; }
for i in "${!changes[@]}"; do start plant "$i" >"$work/$i.log" 2>&1; done
wait
failed=0
for i in "${!changes[@]}"; do judge "$i" || failed=1; done
exit $failed
