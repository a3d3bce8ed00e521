#!/usr/bin/env bash
# make_environment says what it downloads before it does, makes an environment once, and recovers from a download that
# fails or is interrupted. The interpreter is a stand-in: what it is asked to do it writes down, nothing is downloaded.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
export KVCONFORM_PYTHON=$room/python ASKED=$room/asked PIP=$room/pip
fail() { echo "FAILED: $*; it said: $(cat "$room/said")" >&2; exit 1; }

cp "$here/make_environment" "$room/"
printf '# download: 7 MB\n# disk: 9 MB\nthing==1.0\n' >"$room/engine.txt"
cat >"$room/python" <<'PYTHON'
#!/bin/sh
echo "$@" >>"$ASKED"
case "$*" in
  '-m venv '*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  '-m pip '*) sh "$PIP" ;;
esac
PYTHON
chmod +x "$room/python"
make() { "$room/make_environment" engine "$room/made/engine" 2>"$room/said"; }
is_whole() { cmp -s "$room/engine.txt" "$room/made/engine/made-from.txt"; }

echo 'echo no route to the index; exit 1' >"$PIP"
! make || fail "a failed download passed"
grep -q 'downloading 7 MB .*(9 MB on disk)' "$room/said" || fail "the sizes are not said"
grep -q 'no route to the index' "$room/said" || fail "the reason is not shown"
! is_whole || fail "a failed download left a whole environment"

# Ctrl-C reaches every process of the group, the download too: so here, in a group of its own.
echo 'touch "$ASKED.now"; exec sleep 60' >"$PIP"
set -m
make &
set +m
until [ -e "$ASKED.now" ]; do sleep 0.05; done
kill -INT -- -$!
code=0
wait $! || code=$?
[ $code -eq 130 ] || fail "after Ctrl-C the exit code is $code, not 130"
grep -q interrupted "$room/said" || fail "Ctrl-C is not mentioned"
! is_whole || fail "an interrupted download left a whole environment"

echo 'exit 0' >"$PIP"
make || fail "a new attempt does not recover"
is_whole || fail "the environment is not marked as whole"

: >"$ASKED"
make || fail "a second call failed"
[ ! -s "$ASKED" ] && [ ! -s "$room/said" ] || fail "a second call did something"

echo 'other==2.0' >>"$room/engine.txt"
touch "$room/made/engine/rest"
make && is_whole || fail "a changed list does not make the environment anew"
[ ! -e "$room/made/engine/rest" ] || fail "what the older list left is still there"
echo "make_environment: all is well"
