#!/bin/bash
# SPDX-License-Identifier: MIT
# test_again.sh - scripts/again forgives a test that passes when it runs alone, names it, and forgives nothing else. The
# build folder is a makefile whose tests pass once their file of that name is there.
# Speaks TAP.
. "$top_srcdir/tests/lib.sh"
cd "$T" || exit 99
again=$top_srcdir/scripts/again

cat >makefile.in <<'E2'
check-TESTS:
	@test=$(TEST_LOGS:.log=); if [ -e $$test.passes ]; then \
	    echo 'ok 1' >$$test.log; echo ':test-result: PASS 1' >$$test.trs; else \
	    echo 'not ok 1 again' >$$test.log; echo ':test-result: FAIL 1' >$$test.trs; exit 1; fi
E2

# folder NAME TEST...: a build folder in which these tests failed, and one other passed.
folder() {
    mkdir -p "$1/tests" && cp makefile.in "$1/Makefile" || exit 99
    echo ':test-result: PASS 1' >"$1/tests/other.trs"
    local name=$1 test
    shift
    for test; do
        echo 'not ok 1 - sum: wanted 4, got 5' >"$name/tests/$test.log"
        echo ':test-result: FAIL 1 - sum' >"$name/tests/$test.trs"
    done
}

folder once flaky && : >once/tests/flaky.passes
ok "a test that passes alone" eval "$again once >out"
ok "is named" grep -qx '== unsteady: tests/flaky failed, and passed when it ran alone' out
ok "with what failed first" grep -qx 'not ok 1 - sum: wanted 4, got 5' out
ok "its first log is kept" grep -q 'wanted 4' once/tests/flaky.unsteady
ok "and counts as passed" grep -q 'PASS' once/tests/flaky.trs

folder twice flaky broken && : >twice/tests/flaky.passes
ok "a test that fails twice" eval "status 1 $again twice >out"
ok "is not unsteady" test ! -e twice/tests/broken.unsteady
ok "beside one that is" grep -q 'unsteady: tests/flaky' out

folder none
ok "a run that failed without a failed test" status 1 "$again" none
folder many one two three four
for test in one two three four; do : >many/tests/$test.passes; done
ok "more than three failures are not tried again" eval "status 1 $again many 2>err"
ok "and it says so" grep -q 'more than three tests failed' err
finish
