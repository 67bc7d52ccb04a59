#!/bin/bash
# SPDX-License-Identifier: MIT
# test_names.sh - tests plenumrun on three virtual hosts with full names, two of which share their first part. Prints
# TAP. Needs root.
. "$top_srcdir/tests/lib.sh"
. "$top_srcdir/tests/system/hosts.sh"
eval "$("$vhosts" env ssh)"

# These names replace a name server. The first part of v1's and of v3's full name is n1.
cat >>"$VHOSTS_DIR/etc/hosts" <<END
$VHOSTS_NET.1 n1.rack-a.example.com
$VHOSTS_NET.2 n2.rack-a.example.com v2.1.2 v2.44
$VHOSTS_NET.3 n1.rack-b.example.com
$VHOSTS_NET.254 vhead.rack-a.example.com vhead.rack-a
END
where='echo $RANK $(cat /proc/sys/kernel/hostname)'
# names HOSTS WANT WHAT - check where the instances run, and that MPI connects them
names() {
    job --host "$1" sh -c "$where"
    ok "instances run on the named hosts: $3" all 'same $code 0' "same \"\$(sort out | tr '\n' ' ')\" '$2 '"
    [ -x "$mpi_sum" ] || return
    local count
    count=$(grep -c . out)
    job --host "$1" "$mpi_sum"
    ok "MPI connects the named hosts: $3" all 'same $code 0' "same \"\$(grep -c sum out)\" $count"
}
names n2.rack-a.example.com '0 v2' "one other host"
names n1.rack-a.example.com,n2.rack-a.example.com '0 v1 1 v2' "several"
names n1.rack-b.example.com:2,n1.rack-a.example.com '0 v3 1 v3 2 v1' "two hosts with the same first part"
names vhead.rack-a.example.com,n1.rack-a.example.com '0 vhead 1 v1' "this host among others"
names n1.rack-a.example.com,vhead.rack-a,v2 '0 v1 1 vhead 2 v2' "this host, but not first"
names N2.Rack-A.example.COM,v1 '0 v2 1 v1' "upper case"
names V2,v1 '0 v2 1 v1' "a name in upper case, without a dot"
names n2.rack-a.example.com.,n1.rack-a.example.com. '0 v2 1 v1' "names with a dot at the end"
names v2.1.2,v1 '0 v2 1 v1' "a name with parts that are digits"
names v2.44 '0 v2' "a name whose second part is digits"
names "root@n1.rack-a.example.com,root@n1.rack-b.example.com:22:1" '0 v1 1 v3' "names with users and ports"
OMPI_MCA_orte_keep_fqdn_hostnames=0 PRTE_MCA_prte_keep_fqdn_hostnames=0 \
    names n1.rack-a.example.com,n1.rack-b.example.com '0 v1 1 v3' "any setting of Open MPI for names"

# On a host named n1, n1.rack-b is a different host.
"$vhosts" exec v1 hostname n1
eval "cp $VHOSTS_DIR/ssh_config ssh_config"
timeout -k 5 300 "$vhosts" exec v1 env PATH="$PATH" \
    "$run" --host n1.rack-a.example.com,n1.rack-b.example.com sh -c 'echo $RANK $(ip -o -4 addr show eth0)' >out 2>err
code=$?
ok "a different host with the same first name is not taken for this one" all 'same $code 0' \
    'same "$(sort out | sed "s/ .* inet \([0-9.]*\).*/ \1/" | tr "\n" " ")" "0 $VHOSTS_NET.1 1 $VHOSTS_NET.3 "'
"$vhosts" exec v1 hostname v1

# ---- Open MPI's daemon, or its folder, fails on one host ----
on v2 mount -o remount,ro /tmp
job --host v1,v2 true
ok "a read-only /tmp is detected before the start" all 'same $code 125' \
    'last_line_has "v2  *folder  *.*there: /tmp: Read-only file system"' 'nothing_is_left'
job --no-host-check --host v1,v2 true
ok "without the host check, a read-only /tmp is reported after the daemon has failed" all 'same $code 125' 'last_line_has "v2  *folder .*/tmp"' \
    'has_not "did not start within"' 'nothing_is_left'
on v2 mount -o remount,rw,size=8k /tmp
on v2 sh -c 'head -c 100000 /dev/zero >/tmp/full' 2>/dev/null
job --host v1,v2 true
ok "a full /tmp is detected before the start" all 'same $code 125' 'last_line_has "v2  *folder  *.*there: /tmp: No space left"'
on v2 sh -c 'rm /tmp/full; mount -o remount,rw,size=100m /tmp'
mkdir broken && printf '#!/bin/sh\necho "orted: error while loading shared libraries: libhwloc.so.15" >&2\nexit 127\n' >broken/daemon
chmod +x broken/daemon
path=$(type -P $daemon)
on v2 mount --bind "$PWD/broken/daemon" "$(readlink -f "$path")"
job --host v1,v2 true
ok "a daemon with a missing library is reported" all 'same $code 125' \
    'has "  | orted: error while loading shared libraries: libhwloc"' \
    'last_line_has "Open MPI.s daemon cannot be executed on host v2 (status 127): install the same Open MPI there"' \
    'has_not "did not start within"' 'nothing_is_left'
printf '#!/bin/sh\necho $$ >%s/daemon.pid\nexec sleep 1000\n' "$PWD" >broken/daemon
daemon_ended() { ! on v2 kill -0 "$(cat daemon.pid)" 2>/dev/null; }
job --start-timeout 30 --host v1,v2,v3 true
ok "if a daemon does not connect, only its host is named" all 'same $code 125' \
    'last_line_has "did not start within 30.0 s (--start-timeout): no response from instance 1 on host v2: Open MPI.s daemon"' \
    'has_not "host v1"' 'has_not "host v3"' 'wait_for daemon_ended' 'nothing_is_left'
on v2 umount "$(readlink -f "$path")"

# ---- Open MPI is not in the PATH of logins to v2 ----
mkdir elsewhere && ln -s /usr/bin/* elsewhere && rm -f elsewhere/orted elsewhere/prted
[ "$(dirname "$path")" = /usr/bin ] || "$vhosts" hide v2 "$(dirname "$path")"
on v2 sh -c 'kill $(cat /run/sshd.pid)'
sed "s|^SetEnv PATH=.*|SetEnv PATH=$PWD/elsewhere:/usr/sbin|" "$VHOSTS_DIR/sshd_config" >sshd_config
on v2 /usr/sbin/sshd -f "$PWD/sshd_config"
job --start-timeout 50 --host v1,v2,v3 true
ok "a missing daemon is reported at once, with its host" all 'same $code 125' \
    'last_line_has "Open MPI.s daemon cannot be executed on host v2 (status 127)"' 'has_not "did not start within"' \
    'nothing_is_left'
on v2 sh -c 'kill $(cat /run/sshd.pid)'
"$vhosts" sshd v2
[ "$(dirname "$path")" = /usr/bin ] || "$vhosts" unhide v2 "$(dirname "$path")"
job --host v1,v2 true
ok "a job works once everything is restored" same $code 0

if [ -e "$top_builddir/.libs/libplenum-tls.so" ]; then
    export PLENUM_CACHE_DIR=$PWD/cache
    "$top_builddir/plenumctl" make-sample data --classes 2 --images 20 --size 96 >log 2>&1
    want=$("$top_builddir/plenumctl" hash data --epochs 5)
    LD_LIBRARY_PATH=$top_builddir/.libs job -x LD_LIBRARY_PATH --host n1.rack-a.example.com \
        --loader none --loader-host N1.rack-b.example.com "$top_builddir/examples/feed" data --epochs 5 --json
    ok "--loader-host accepts a full name" all 'same $code 0' 'grep -q "$want" out'
    job --host n1.rack-a.example.com --loader-host N1.Rack-A.example.com. true
    ok "a host given both as host and as loader host, spelt differently, is rejected" all 'same $code 2' \
        'has "loader-host"'
else
    skip "--loader-host accepts a full name" "built without TLS"
fi
finish
