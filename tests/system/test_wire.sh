#!/bin/bash
# SPDX-License-Identifier: MIT
# test_wire.sh - checks that an eavesdropper between the hosts of a job can read Open MPI's own messages, but no key,
# token, variable or output of the job. Prints TAP. Needs root.
. "$top_srcdir/tests/lib.sh"
. "$top_srcdir/tests/system/hosts.sh"
[ -e "$top_builddir/.libs/libplenum-tls.so" ] || skip_all "built without TLS"
[ "$PYTHON" != : ] || skip_all "Python is not installed"

# A job's first program writes its secrets to a file.
cat >tell <<'END'
#!/bin/sh
[ "$RANK" = 0 ] || exit 0
echo "client key: $(cut -d' ' -f3 "$PLENUM_LOADER_KEY")"
for p in /proc/[0-9]*; do
    tr '\0' '\n' <$p/environ 2>/dev/null | sed -n 's/^PLENUM_SHIM_TOKEN=\(tls:\)*\([0-9a-f]\)/token: \2/p'
done | sort -u
END
chmod +x tell

# overheard JOB... - run a job and capture all traffic on the bridge
overheard() {
    "$PYTHON" "$top_srcdir/tests/system/wire.py" "$dir/wire" >ready &
    local ear=$!
    wait_for grep -q ready ready
    job "$@"
    sleep 0.3
    kill $ear
    wait $ear 2>/dev/null
}
not_heard() { for secret; do [ -n "$secret" ] && ! grep -q -a -e "$secret" wire ||
    { echo "'$secret' can be read"; return 1; }; done; }
heard() { grep -q -a -e "$1" wire || { echo "'$1' was not sent"; return 1; }; }

for how in ssh agent; do
    eval "$("$vhosts" env $how)"
    overheard -x PASSWORD=correct-horse-$how --loader none --loader-host v3 --host v1,v2 \
        sh -c './tell >told; echo all-that-is-printed'
    token=$(sed -n 's/^token: //p' told | head -n 1) key=$(sed -n 's/^client key: //p' told)
    ok "$how: the job runs, and its secrets are known" all 'same $code 0' 'test ${#token} = 64' 'test ${#key} = 64'
    ok "$how: the listener receives traffic" heard PLENUM_SHIM_JOB
    ok "$how: no key, token, variable or output is readable" not_heard "$token" "$key" correct-horse-$how \
        all-that-is-printed
    ok "$how: nothing is left" nothing_is_left
done
# A host without TLS is named before anything starts.
on v2 mount --bind /dev/null "$top_builddir/.libs/libplenum-tls.so"
job --host v1,v2 true
ok "a host where TLS is not installed is reported" all 'same $code 125' \
    'last_line_has "v2  *encryption  *a key needs TLS, which is not installed"' nothing_is_left
on v2 umount "$top_builddir/.libs/libplenum-tls.so"

# If TLS is not installed, a job runs with a warning, but features that need a key are rejected.
bare() {
    unshare -m sh -c 'mount --bind /dev/null "$0" && exec "$@"' "$top_builddir/.libs/libplenum-tls.so" "$run" \
        "$@" >out 2>err; code=$?
}
bare --host v1,v2 sh -c 'echo $RANK'
ok "without TLS: the job runs, with a warning" all 'same $code 0' 'has "variables passed with -x, is not encrypted"' \
    nothing_is_left
bare --loader none --loader-host v3 --host v1,v2 true
ok "without TLS: --loader-host is rejected" all 'same $code 125' \
    'last_line_has "--loader-host: a key needs TLS, which is not installed"' nothing_is_left
finish
