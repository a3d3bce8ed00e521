#!/usr/bin/env bash
# Tests the launcher in a scratch folder whose cmake, ctest, apt-get and dpkg-query are fakes that write down how
# they were called: what it runs, when it runs nothing, and which exit codes come back. Nothing is
# installed or compiled.
#
#   launcher_test.sh SOURCE_FOLDER        one line a failed expectation; exit code 1 if there is any
set -u
source_folder=$(cd "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
failures=0

# expect SENTENCE COMMAND…: the sentence is what must hold, the command is how it is seen.
expect() {
  local sentence=$1
  shift
  "$@" && return
  echo "FAILED: $sentence ($*)"
  failures=$((failures + 1))
}
exit_code_is() { local want=$1 code=0; shift; "$@" >"$scratch/out" 2>"$scratch/err" || code=$?; [ $code -eq "$want" ] || { cat "$scratch/out" "$scratch/err"; return 1; }; }
called() { grep -q -- "$1" calls; }
not_called() { ! grep -q -- "$1" calls; }
says() { grep -q -- "$1" "$scratch/err"; }

# Only these tools, so that nothing of the machine leaks in.
mkdir bin tree tree/.git tree/.git/logs elsewhere
for tool in bash env cat cp dirname readlink tail sed grep find flock nproc awk mkdir mv rm sleep touch chmod; do
  ln -s "$(command -v $tool)" bin/
done
fake() { { echo '#!/usr/bin/env bash'; echo "echo \"$1 \$*\" >>$scratch/calls"; cat; } >"bin/$1"; chmod +x "bin/$1"; }
fake cmake <<E2
case "\$*" in *--build*)
  [ -e $scratch/slow ] && sleep 1
  [ -e $scratch/broken ] && { echo 'error: no such thing'; exit 1; }
  printf '#!/usr/bin/env bash\necho "program in \$PWD: \$*"; echo "called as \$KVCONFORM_CALLED_AS"; exit 4\n' >$scratch/tree/build/kvconform
  chmod +x $scratch/tree/build/kvconform ;;
esac
E2
fake ctest <<<"[ ! -e $scratch/red ] || exit 8"
fake apt-get <<<"touch $scratch/installed"
fake sudo <<<'exec "$@"'
fake dpkg-query <<<"[ -e $scratch/installed ] && echo -n installed"
cp "$source_folder/kvconform" tree/
printf '# comment\n\nbig | build | a reason\nsmall | ci | another\nnice | build | third\n' >tree/dependencies.txt
touch tree/a.cpp tree/.git/logs/HEAD
export PATH=$scratch/bin
kv=$scratch/tree/kvconform
older() { touch -d '1 hour ago' tree/*.* tree/.git/logs/HEAD; }
reset() { : >calls; }

reset
cd elsewhere || exit 1
expect 'the program gets its words and its exit code comes back' exit_code_is 4 "$kv" check 'two words'
expect 'the program knows how it was called' grep -qF "called as $kv" "$scratch/out"
expect 'a number of jobs that is none is a wrong call' env KVCONFORM_JOBS=abc bash -c "'$kv' check 2>err; [ \$? = 2 ] && grep -q 'KVCONFORM_JOBS is .abc' err"
expect 'the program runs where the caller stands' grep -q "program in $scratch/elsewhere: check two words" "$scratch/out"
cd ..
expect 'lists are fetched before packages' called 'apt-get update'
expect 'packages for building are installed, others are not' called 'install .*big nice$'
expect 'the program alone is built' called 'cmake --build .*--target kvconform'

older; touch -d '30 minutes ago' tree/build/*.stamp; reset
expect 'a second run starts the program' exit_code_is 4 "$kv" check
expect 'a second run asks no tool' not_called .
touch tree/a.cpp
exit_code_is 4 "$kv" check
expect 'a changed source is built' called 'cmake --build'
expect 'nothing is installed twice' not_called 'apt-get'

older; touch -d '30 minutes ago' tree/build/*.stamp; touch tree/.git/logs/HEAD; reset
exit_code_is 4 "$kv" check
expect 'a new commit is built in' called 'cmake --build'

touch broken tree/a.cpp; sleep 0.01
expect 'a build that fails is a failure of the harness' exit_code_is 5 "$kv" check
expect 'a build that fails shows the end of the log' says 'no such thing'
rm broken
expect 'a build that failed is tried again' exit_code_is 4 "$kv" check

reset
expect 'green tests give 0' exit_code_is 0 "$kv" test
expect 'test builds everything' called 'cmake --build .*--target all'
expect 'test leaves the long ones out' called 'ctest .*-LE ^long\$'
reset
expect 'test --all gives 0' exit_code_is 0 "$kv" test --all
expect 'test --all leaves nothing out' not_called 'ctest.*-LE'
touch red
expect 'red tests give 1' exit_code_is 1 "$kv" test
expect 'a word that test does not know is a wrong call' exit_code_is 2 "$kv" test --al

touch slow tree/a.cpp; sleep 0.01; reset
"$kv" check >/dev/null 2>&1 & first=$!
"$kv" check >/dev/null 2>&1 & second=$!
wait $first $second
expect 'two launchers at once build once' test "$(grep -c -- --build calls)" = 1
rm slow

mv tree moved
sed -i "s,$scratch/tree,$scratch/moved," bin/cmake
reset
expect 'a folder that was moved is built anew' exit_code_is 4 "$scratch/moved/kvconform" check
expect 'a folder that was moved is configured afresh' called 'cmake .*--preset release --fresh'

touch moved/a.cpp; rm bin/apt-get; sleep 0.01
expect 'without apt it stops' exit_code_is 5 "$scratch/moved/kvconform" check
expect 'without apt it prints the list' says '^  big$'
KVCONFORM_NO_INSTALL=1 expect 'told that all is there, it goes on without apt' exit_code_is 4 "$scratch/moved/kvconform" check

[ $failures -eq 0 ]
