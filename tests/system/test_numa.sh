#!/bin/bash
# SPDX-License-Identifier: MIT
# test_numa.sh - tests binding under a kernel that really has four NUMA nodes, and a fifth without CPUs (numavm.sh).
# Prints TAP. Needs root, qemu-system-x86 and a kernel ("numavm.sh fetch" gets one).
. "$top_srcdir/tests/lib.sh"
vm=$top_srcdir/tests/system/numavm.sh
run=$top_builddir/plenumrun
if [ "${1:-}" != --in-guest ]; then
    [ "$(id -u)" = 0 ] || skip_all "the emulated machine needs root"
    for tool in mpirun qemu-system-x86_64 cpio; do
        command -v $tool >/dev/null || skip_all "$tool is not installed"
    done
    [ -f "${NUMAVM_KERNEL:-/tmp/numavm-kernel}/vmlinuz" ] || skip_all "no kernel: tests/system/numavm.sh fetch gets one"
    export NUMAVM_SELF=$0
    "$vm" -n 4 -c 2 -e 256 -t 500 bash "$0" --in-guest
    status=$?
    [ $status = 125 ] && skip_all "the emulated machine does not start"
    exit $status
fi

cd "$T" || exit 99
export LC_ALL=C
same() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; sed 's/^/standard error: /' err; false; }; }
has() { grep -q -e "$2" "$1" || { echo "no '$2' in $1"; cat "$1"; false; }; }
all() { for t; do eval "$t" || { echo "does not hold: $t"; return 1; }; done; }
job() {
    timeout -k 5 300 "$run" "$@" >out 2>err
    code=$?
}
# Prints what the kernel reports of a process: its CPUs, its memory policy, and the nodes that hold its private memory.
cat >./what <<'EOF2'
cpus=$(sed -n 's/^Cpus_allowed_list:\s*//p' /proc/self/status)
policy=$(sed 's/prefer (many)/prefer/' /proc/self/numa_maps | awk '$0 !~ /file=/ && /anon=/ { print $2; exit }')
nodes=$(awk '$0 !~ /file=/ && /anon=/ {
                 for (i = 3; i <= NF; i++) if ($i ~ /^N[0-9]+=/) n[substr($i, 2, index($i, "=") - 2)] = 1
             }
             END { for (i = 0; i < 9; i++) if (i in n) printf "%s%d", s++ ? "," : "", i }' /proc/self/numa_maps)
echo $RANK $cpus $policy $nodes
EOF2

ok "the kernel has five nodes, one of them without CPUs" same \
    "$(cat /sys/devices/system/node/has_memory) $(cat /sys/devices/system/node/has_cpu)" "0-4 0-3"
job -n 4 --print-topology=json --dry-run
cp out plan.json
ok "four instances get one node each" same \
    "$(sed -n 's/.*"index": \([0-9]*\).*"cpus": "\([^"]*\)", "numa_nodes": "\([^"]*\)", "memory_policy": "\([^"]*\)".*/\1 \2 \3 \4/p' plan.json)" "0 0-1 0 bind
1 2-3 1 bind
2 4-5 2 bind
3 6-7 3 bind"
job -n 4 bash what
ok "the kernel confirms the CPUs, policies and memory of four instances" same "$(sort out)" "0 0-1 bind:0 0
1 2-3 bind:1 1
2 4-5 bind:2 2
3 6-7 bind:3 3"
job -n 2 bash what
ok "two instances get two nodes each" all 'same "$(sort out | cut -d" " -f1-3)" "0 0-3 bind:0-1
1 4-7 bind:2-3"'
job -n 8 bash what
ok "eight instances get halves of nodes" same "$(sort out)" "0 0 bind:0 0
1 1 bind:0 0
2 2 bind:1 1
3 3 bind:1 1
4 4 bind:2 2
5 5 bind:2 2
6 6 bind:3 3
7 7 bind:3 3"
job -n 2 --mem-policy interleave bash what
ok "--mem-policy interleave is applied" same "$(sort out | cut -d' ' -f1-3)" "0 0-3 interleave:0-1
1 4-7 interleave:2-3"
job -n 4 --mem-policy preferred bash what
ok "--mem-policy preferred is applied" same "$(sort out | cut -d' ' -f1-3)" "0 0-1 prefer:0
1 2-3 prefer:1
2 4-5 prefer:2
3 6-7 prefer:3"
job -n 4 --mem-policy local bash what
ok "--mem-policy local is applied" same "$(sort out | cut -d' ' -f1-3)" "0 0-1 local
1 2-3 local
2 4-5 local
3 6-7 local"
job -n 2 --process-placement core bash what
ok "--process-placement core gives each instance one core" same "$(sort out)" "0 0 bind:0 0
1 4 bind:2 2"
job -n 1 --process-placement disabled bash what
ok "--process-placement disabled binds nothing" same "$(cut -d' ' -f1-3 out)" "0 0-7 default"
job -n 4 --strict-binding --reserve-cores 4 bash what
ok "--reserve-cores takes one core of each node" same "$(sort out)" "0 0 bind:0 0
1 2 bind:1 1
2 4 bind:2 2
3 6 bind:3 3"

# ---- limits: CPUs that are offline, taskset, cpusets and quotas ----
echo 0 >/sys/devices/system/cpu/cpu3/online
job -n 4 bash what
ok "a CPU that is offline is not used" same "$(sort out | cut -d' ' -f1-3)" "0 0-1 bind:0
1 2 bind:1
2 4-5 bind:2
3 6-7 bind:3"
echo 1 >/sys/devices/system/cpu/cpu3/online
job -n 2 taskset -c 0 true
taskset -c 2-5 "$run" -n 2 bash what >out 2>err
ok "CPUs outside taskset's set are not used" same "$(sort out | cut -d' ' -f1-3)" "0 2-3 bind:1
1 4-5 bind:2"
mkdir -p cg && mount -t cgroup2 none cg 2>/dev/null && echo '+cpuset +cpu' >cg/cgroup.subtree_control 2>/dev/null &&
    mkdir cg/job
if [ -e cg/job/cpuset.cpus ]; then
    mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null
    echo 4-7 >cg/job/cpuset.cpus && echo 2-3 >cg/job/cpuset.mems
    (echo $BASHPID >cg/job/cgroup.procs && "$run" -n 2 bash what) >out 2>err
    ok "CPUs outside the cpuset are not used" same "$(sort out)" "0 4-5 bind:2 2
1 6-7 bind:3 3"
    echo '' >cg/job/cpuset.cpus; echo '' >cg/job/cpuset.mems
    echo '300000 100000' >cg/job/cpu.max
    (echo $BASHPID >cg/job/cgroup.procs && "$run" -n 2 --print-topology sh -c 'echo threads $OMP_NUM_THREADS') >out \
        2>err
    ok "a quota of three CPUs limits the threads" all 'has out "8 (time of 3)"' 'same "$(grep -c "threads 1" out)" 2'
    (echo $BASHPID >cg/job/cgroup.procs && "$run" -n 4 --print-topology=json true) >out 2>err
    ok "four instances that share the quota are oversubscribed" all 'has out "\"cpu_quota_millicores\": 3000"' \
        'same "$(grep -c "\"oversubscribed\": true" out)" 4'
else
    skip "a cpuset" "no control groups"
fi
umount -l cg /sys/fs/cgroup 2>/dev/null
rmdir cg 2>/dev/null
finish
