#!/usr/bin/env bash
# Tries the gate on times, as often as one likes: a build against itself (no change, and not inconclusive), and against
# one whose decode steps cost 5 % more (exit code 1 under --gate 2). Not a test: times are never asserted in one. What
# each comparison said is appended to BUILD/bench/trial.log.
#   bench/gate_trial.sh BUILD FILTER [SAME_TRIES [SLOWED_TRIES]]        default: 20 and 10 tries
#   bench/gate_trial.sh build '^reference/decode/context:64$'
set -u
build=$1 filter=$2 same=${3:-20} slowed=${4:-10} quiet=0 noisy=0 caught=0 all=0 alarms=0
log=$build/bench/trial.log
cmake --build "$build" --target bench_programs slowed_programs kvconform >/dev/null || exit 5

compare() {
  local said status
  said=$("$build/kvconform" bench compare "$build" "$1" --gate 2 --filter "$filter" 2>/dev/null)
  status=$?
  echo "$said" >>"$log"
  all=$(grep -c ' noise ' <<<"$said")
  alarms=$(grep -cE '(slower|faster|too slow)$' <<<"$said")
  return $status
}

for ((i = 0; i < same; i++)); do
  compare "$build"
  case $? in
    0) [ "$alarms" -ne 0 ] || quiet=$((quiet + 1)) ;;
    3) noisy=$((noisy + 1)) ;;
  esac
done
echo "a build against itself, $filter: no change in $quiet of $same tries, inconclusive in $noisy"
late=0
for ((i = 0; i < slowed; i++)); do
  compare "$build/bench/slowed"
  status=$?
  [ "$status" -ne 3 ] || late=$((late + 1))
  [ "$status" -ne 1 ] || [ "$alarms" -ne "$all" ] || caught=$((caught + 1))
done
echo "5 % more in decode, --gate 2, $filter ($all benchmarks): all caught in $caught of $slowed tries, inconclusive in $late"
[ "$quiet" -eq "$same" ] && [ "$caught" -eq "$slowed" ]
