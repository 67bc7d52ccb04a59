#!/bin/bash
# SPDX-License-Identifier: MIT
# test_again.sh - scripts/again accepts a failed test that passes when it runs alone, and reports it; any other failure
# stays one. The build folder is a makefile whose tests pass once a file with their name exists.
# Prints TAP.
. "$top_srcdir/tests/lib.sh"
cd "$T" || exit 99
again=$top_srcdir/scripts/again

cat >makefile.in <<'E2'
check-TESTS:
	@test=$(TEST_LOGS:.log=); if [ -e $$test.passes ]; then \
	    echo 'ok 1' >$$test.log; echo ':test-result: PASS 1' >$$test.trs; else \
	    echo 'not ok 1 again' >$$test.log; echo ':test-result: FAIL 1' >$$test.trs; exit 1; fi
E2

# folder NAME TEST...: makes a build folder in which these tests failed and another one passed
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
ok "a test that passes when run alone is accepted" eval "$again once >out"
ok "the test is reported as unsteady" grep -qx '== unsteady: tests/flaky failed, and passed when it ran alone' out
ok "its first failure is reported" grep -qx 'not ok 1 - sum: wanted 4, got 5' out
ok "its first log is kept" grep -q 'wanted 4' once/tests/flaky.unsteady
ok "the test counts as passed" grep -q 'PASS' once/tests/flaky.trs

folder twice flaky broken && : >twice/tests/flaky.passes
ok "a test that fails twice is a failure" eval "status 1 $again twice >out"
ok "the test is not reported as unsteady" test ! -e twice/tests/broken.unsteady
ok "an unsteady test in the same run is still reported" grep -q 'unsteady: tests/flaky' out

folder none
ok "a run that failed without a failed test stays failed" status 1 "$again" none
folder many one two three four
for test in one two three four; do : >many/tests/$test.passes; done
ok "more than three failed tests are not retried" eval "status 1 $again many 2>err"
ok "the message gives the reason" grep -q 'more than three tests failed' err
finish
