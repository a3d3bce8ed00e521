#!/usr/bin/env bash
# Tries the gate on times, as often as one likes: a build against itself (no significant change), and against one whose
# decode steps cost 5 % more (caught under --gate 2). Not a test: times are never asserted in one.
#   bench/gate_trial.sh BUILD [SAME_TRIES [SLOWED_TRIES]]        default: 20 and 10 tries
set -u
build=$1 same=${2:-20} slowed=${3:-10} quiet=0 caught=0
cmake --build "$build" --target bench_programs slowed_reference_benchmark kvconform >/dev/null || exit 5
for ((i = 0; i < same; i++)); do
  if "$build/kvconform" bench compare "$build" "$build" --gate 0 2>/dev/null | tee -a "$build/bench/trial.log" |
      grep -q '0 counts moved, 0 times changed'; then quiet=$((quiet + 1)); fi
done
echo "a build against itself: no significant change in $quiet of $same tries"
for ((i = 0; i < slowed; i++)); do
  "$build/kvconform" bench compare "$build" "$build/bench/slowed" --gate 2 --filter reference/small/decode \
    2>/dev/null >>"$build/bench/trial.log"
  [ $? -ne 1 ] || caught=$((caught + 1))
done
echo "5 % more work in decode, --gate 2: caught in $caught of $slowed tries"
[ "$quiet" -eq "$same" ] && [ "$caught" -eq "$slowed" ]
