#!/usr/bin/env bash
# The reference gives the same bits whatever compiles it: builds a program with several compilers, levels of optimisation
# and for another architecture (run by qemu), and compares what they print, line by line.
#
#   bit_stability_test.sh SOURCE_FOLDER WORK_FOLDER PROGRAM.cpp ARGUMENT SOURCE…      FLAGS: the project's numeric flags
#
# To add a variant: one line in the list below. A compiler that is missing is reported as not run, with what would
# help. Exit code: 0 all equal, 1 a difference or a failure (of the program too), 77 nothing to compare.
set -uo pipefail
source_folder=$1 work=$2 program=$3 argument=$4
shift 4
jobs=${KVCONFORM_JOBS:-2}
foreign=${work%/*}/aarch64-packages # what Debian's aarch64 packages would install
mkdir -p "$work"

# Sources that read text and files and compute nothing are compiled once an architecture; all others by every variant.
plumbing=() numeric=("$program")
for source in "$@"; do
  case ${source#"$source_folder"/} in
    golden/* | properties/* | reference/witness*) plumbing+=("$source"); continue ;;
  esac
  case ${source##*/} in
    *config*.cpp | *fields.cpp | *text.cpp | *plan*.cpp | safetensors*.cpp | *file*.cpp | checkpoint*.cpp | *specs.cpp)
      plumbing+=("$source") ;;
    *) numeric+=("$source") ;;
  esac
done

# label | compiler | options. The first that runs is what the others are compared with.
variants=(
  'g++ -O0|g++|-O0'
  'g++ -O2|g++|-O2'
  'g++ -O3 -march=native|g++|-O3 -march=native'
  'clang++ -O0|clang++|-O0'
  'clang++ -O2|clang++|-O2'
  'clang++ -O3 -march=native|clang++|-O3 -march=native'
  'aarch64 g++ -O2|aarch64-linux-gnu-g++|-O2'
)

# Debian's SLEEF and OpenSSL for aarch64, fetched by apt with folders of its own and unpacked here: the machine's own list of
# packages and architectures stays as it is.
fetch_foreign_libraries() {
  [ ! -e "$foreign/complete" ] || return 0
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
  mkdir -p "$foreign/apt/lists/partial" "$foreign/apt/archives/partial"
  : >"$foreign/apt/status"
  local options=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$foreign/apt"
    -o Dir::State::status="$foreign/apt/status" -o Dir::Cache="$foreign/apt" -o APT::Sandbox::User="$(id -un)")
  (
    cd "$foreign" || exit 1
    apt-get "${options[@]}" update # a foreign source may fail: the download decides
    apt-get "${options[@]}" download libsleef3 libsleef-dev libssl3 libssl-dev || exit 1
    for package in *.deb; do dpkg-deb -x "$package" . || exit 1; done
    rm -rf apt ./*.deb
    touch complete
  )
}

# Headers without code of their own are the same for both architectures; only these, and not the host's /usr/include.
link_headers() {
  mkdir -p "$foreign/headers"
  ln -sfn /usr/include/nlohmann "$foreign/headers/nlohmann"
  ln -sfn /usr/include/fmt "$foreign/headers/fmt"
  ln -sfn /usr/include/eigen3/Eigen "$foreign/headers/Eigen"
}

# Prints why a variant cannot run here; nothing if it can.
missing() {
  command -v "$1" >/dev/null || { echo "$1 is not installed (see dependencies.txt, bit-stability)"; return; }
  [ "$1" = aarch64-linux-gnu-g++ ] || return 0
  [ "$(uname -m)" != aarch64 ] || { echo 'this machine is aarch64: the others are'; return; }
  command -v qemu-aarch64 >/dev/null || { echo 'qemu-aarch64 is not installed (package qemu-user)'; return; }
  fetch_foreign_libraries >"$work/foreign.log" 2>&1 || echo "no libraries for aarch64 (see $work/foreign.log)"
}

# compile COMPILER OPTIONS FOLDER SOURCE: one object. $include and $ccache come from the caller.
compile() {
  # shellcheck disable=SC2086  # options are words
  $ccache "$1" -std=c++20 ${FLAGS:-} $2 -DFMT_HEADER_ONLY -I "$source_folder" "${include[@]}" \
    -c "$4" -o "$3/$(basename "$4").o"
}

# For an architecture: how its compiler finds headers and libraries, and who runs its programs.
set_up_architecture() {
  include=(-isystem /usr/include/eigen3) link=(-lsleef -lcrypto) runner=()
  [ "$1" = aarch64-linux-gnu-g++ ] || return 0
  local libraries=$foreign/usr/lib/aarch64-linux-gnu
  link_headers
  include=(-isystem "$foreign/headers" -isystem "$foreign/usr/include"
    -isystem "$foreign/usr/include/aarch64-linux-gnu")
  link=("$libraries/libsleef.so.3" "$libraries/libcrypto.so.3")
  runner=(qemu-aarch64 -L /usr/aarch64-linux-gnu -E "LD_LIBRARY_PATH=$libraries:/usr/aarch64-linux-gnu/lib")
}

# Where the plumbing of a compiler's architecture lies.
plumbing_of() { [ "$1" = aarch64-linux-gnu-g++ ] && echo "$work/aarch64" || echo "$work/native"; }

# Starts one job more as soon as there is room for it.
start() {
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  "$@" &
}

# The plumbing of one architecture, by g++ of that architecture; a log for each object.
start_plumbing() {
  local folder source
  folder=$(plumbing_of "$1")
  rm -rf "$folder" && mkdir -p "$folder"
  set_up_architecture "$1"
  for source in "${plumbing[@]}"; do
    start compile "$1" -O0 "$folder" "$source" >"$folder/$(basename "$source").log" 2>&1
  done
}

# build_and_run NUMBER: what a variant prints goes to NUMBER.hashes, which is missing if anything failed.
build_and_run() {
  local compiler options folder=$work/$1
  IFS='|' read -r _ compiler options <<<"${variants[$1]}"
  set_up_architecture "$compiler"
  rm -rf "$folder" && mkdir -p "$folder"
  for source in "${numeric[@]}"; do compile "$compiler" "$options" "$folder" "$source" || return 1; done
  # The variant's own objects first: of an inline function that both have, the linker takes the first.
  "$compiler" "$folder"/*.o "$(plumbing_of "$compiler")"/*.o "${link[@]}" -pthread -o "$folder/program" || return 1
  "${runner[@]}" "$folder/program" "$argument" >"$work/$1.hashes.new" || return 1
  mv "$work/$1.hashes.new" "$work/$1.hashes"
}

# Compares one variant with the yardstick and prints its line of the table.
judge() {
  local label=${variants[$1]%%|*} differing
  if [ -n "${reason[$1]}" ]; then
    printf '%-28s not run: %s\n' "$label" "${reason[$1]}"
  elif [ ! -e "$work/$1.hashes" ]; then
    printf '%-28s FAILED, see below\n' "$label"
    tail -n 20 "$work/$1.log"
    failed=1
  else
    compared=$((compared + 1))
    [ -n "$yardstick" ] || yardstick=$work/$1.hashes
    differing=$(diff "$yardstick" "$work/$1.hashes" | grep -c '^[<>]')
    printf '%-28s %5d lines, %d differ\n' "$label" "$(wc -l <"$work/$1.hashes")" $(((differing + 1) / 2))
    [ "$differing" -eq 0 ] || { diff "$yardstick" "$work/$1.hashes" | head -n 8; failed=1; }
  fi
}

ccache=$(command -v ccache) || ccache=''
rm -f "$work"/*.hashes
reason=()
for i in "${!variants[@]}"; do
  IFS='|' read -r _ compiler _ <<<"${variants[$i]}"
  reason[i]=$(missing "$compiler")
done
for compiler in g++ aarch64-linux-gnu-g++; do
  [ -n "$(missing "$compiler")" ] || start_plumbing "$compiler"
done
wait
for i in "${!variants[@]}"; do
  [ -n "${reason[i]}" ] || start build_and_run "$i" >"$work/$i.log" 2>&1
done
wait

compared=0 failed=0 yardstick=''
for i in "${!variants[@]}"; do judge "$i"; done
[ $failed -eq 0 ] || exit 1
[ $compared -ge 2 ] || { echo 'nothing to compare with'; exit 77; }
