#!/bin/bash
# SPDX-License-Identifier: MIT
# test_hosts.sh - tests plenumrun on three virtual hosts: start by agent and by ssh, users and ports, networks,
# firewalls. Prints TAP. Needs root.
. "$top_srcdir/tests/lib.sh"
. "$top_srcdir/tests/system/hosts.sh"

for how in agent ssh; do
    eval "$("$vhosts" env $how)"
    job --host 'v[3,1]:2,v2:1' \
        sh -c 'echo $RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK $(hostname) $(pwd) $MASTER_ADDR'
    ok "$how: instances run in the order of the hosts" same "$(sort out)" "0 0/2 0 v3 $dir $VHOSTS_NET.3
1 1/2 0 v3 $dir $VHOSTS_NET.3
2 0/2 1 v1 $dir $VHOSTS_NET.3
3 1/2 1 v1 $dir $VHOSTS_NET.3
4 0/1 2 v2 $dir $VHOSTS_NET.3"
    job --host v2,vhead,v1 sh -c 'echo $RANK $OMPI_COMM_WORLD_RANK $(hostname)'
    ok "$how: instances run in the order of the hosts, also on the launching host" same "$(sort out)" "0 0 v2
1 1 vhead
2 2 v1"
    if [ -x "$mpi_sum" ]; then
        job --host 'v[1-3]:2' "$mpi_sum"
        ok "$how: MPI works between hosts" same "$(grep -c 'sum 6' out)" 6
    fi
    job --host 'v[1-3]' --grace 2 \
        sh -c '[ $RANK != 1 ] || { echo reason >&2; sleep 0.3; exit 3; }; setsid sleep 2000.'$id' & wait'
    ok "$how: a failing instance is reported" all 'same $code 3' 'last_line_has "instance 1 on host v2 exited with code 3"' \
        nothing_is_left
    job --start-timeout 20 --host v1,vghost true
    ok "$how: a host that is down is reported" all 'same $code 125' 'last_line_has "vghost  *log in"' 'below $took 25000' \
        nothing_is_left
    job --start-timeout 20 --host v1,no-such-host true
    ok "$how: an unknown host name is reported" all 'same $code 125' 'last_line_has "no-such-host  *log in"' \
        'below $took 10000' nothing_is_left
    job --host 'v[1-3]' no-such-program
    ok "$how: a missing program is reported" all 'same $code 127' \
        'last_line_has "v3  *program  *there is no program .no-such-program. in PATH"' nothing_is_left
    mkdir -p /tmp/only-at-head.$id
    cd /tmp/only-at-head.$id && "$run" --host v1,v2 true >"$dir/out" 2>"$dir/err"
    code=$?
    cd "$dir" && rmdir /tmp/only-at-head.$id
    ok "$how: a missing working directory is reported" all 'same $code 125' \
        'last_line_has "v2  *working directory  */tmp/only-at-head.*: No such file"' nothing_is_left
done

if [ "$PYTHON" != : ] && "$PYTHON" -c 'import torch.distributed as d; exit(not d.is_available())' 2>/dev/null; then
    cp "$top_srcdir/tests/launcher/ddp.py" .
    job --host 'v[1-3]' "$PYTHON" ddp.py
    ok "an unmodified DistributedDataParallel program runs" all 'same $code 0' \
        'same "$(grep -c "of 3, local 0: the same weights" out)" 3'
else
    skip "an unmodified DistributedDataParallel program" "no PyTorch for $PYTHON"
fi

# ---- hosts with users, ports and IPv6 addresses ----
"$vhosts" exec v2 /usr/sbin/sshd -f "$VHOSTS_DIR/sshd_config" -o PidFile=/run/sshd2.pid -p 2222
job --host v1,root@v2:2222,root@v3::,v2:22:1 true
ok "a malformed host list is rejected" all 'same $code 2' 'grep -q -e "--host: host" err'
job --host v1,root@v2:2222,root@v3 sh -c 'echo $RANK $(hostname) $MASTER_ADDR'
ok "users and ports are used to log in" same "$(sort out)" "0 v1 $VHOSTS_NET.1
1 v2 $VHOSTS_NET.1
2 v3 $VHOSTS_NET.1"
job --host v1,nobody@v2 true
ok "a user without permission to log in is reported" all 'same $code 125' 'last_line_has "v2  *log in  *.*Permission denied"'
job --host v1,root@v2:2223 true
ok "a port without a listener is reported" all 'same $code 125' 'last_line_has "v2  *log in  *.*refused"'
"$vhosts" exec v2 sh -c 'kill $(cat /run/sshd2.pid)'
six() { # HOST NUMBER: gives the host an IPv6 address
    on "$1" sh -c "echo 0 >/proc/sys/net/ipv6/conf/all/disable_ipv6; echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6
                   ip addr add fd77::$2/64 dev eth0 nodad" 2>/dev/null
}
if six v1 1 && six v2 2 && { echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6 &&
    ip addr add fd77::fe/64 dev eth0 nodad; } 2>/dev/null; then
    job --host '[fd77::1]:2,fd77::2' sh -c 'echo $RANK $(hostname)'
    ok "hosts may be named by IPv6 addresses" same "$(sort out)" "0 v1
1 v1
2 v2"
    [ ! -x "$mpi_sum" ] || { job --host '[fd77::1]:2,fd77::2' "$mpi_sum"
        ok "MPI connects hosts named by IPv6 addresses" same "$(grep -c 'sum 3' out)" 3; }
    job --host fd77::fe sh -c 'echo $RANK $(hostname)'
    ok "an IPv6 address of this host names this host" all 'same "$(cat out)" "0 vhead"'
else
    skip "IPv6 addresses" "no IPv6 here"
fi

# ---- the network between them ----
job --host v1,v2 sh -c 'echo $OMPI_MCA_btl_tcp_if_include $GLOO_SOCKET_IFNAME'
ok "the hosts' common subnet and its interface are found" same "$(sort -u out)" "$VHOSTS_NET.0/24 eth0"
for h in 1 2 3; do # docker0 is not a common network: it has the same address on all hosts
    on v$h sh -c "ip link add docker0 type bridge && ip addr add 172.17.0.1/16 dev docker0 && ip link set docker0 up
                  ip link add eth1 type bridge && ip addr add 10.99.0.$h/24 dev eth1 && ip link set eth1 up"
done
job --host v1,v2 sh -c 'echo $OMPI_MCA_btl_tcp_if_include $GLOO_SOCKET_IFNAME'
ok "docker0 is ignored, and the subnet used for logins comes first" same "$(sort -u out)" "$VHOSTS_NET.0/24 eth0"
job --host v1,v2 --host-subnet 10.99.0.0/16 sh -c 'echo $OMPI_MCA_btl_tcp_if_include $GLOO_SOCKET_IFNAME $MASTER_ADDR'
ok "--host-subnet selects the network" same "$(sort -u out)" "10.99.0.0/16 eth1 10.99.0.1"
job --host v1,v2 --host-subnet 10.98.0.0/16 true
ok "a --host-subnet in which one host has no address is rejected" all 'same $code 125' \
    'last_line_has "v2  *network  *it has no address in --host-subnet 10.98.0.0/16; its addresses are "'
[ ! -x "$mpi_sum" ] || { job --host 'v[1-3]:2' "$mpi_sum"
    ok "MPI does not try docker0" same "$(grep -c 'sum 6' out)" 6; }
job --host v1,v2 -v true
ok "-v reports the subnet" grep -q "the hosts communicate over $VHOSTS_NET.0/24" err

# ---- a firewall: the kernel refuses, or drops, packets to and from ports of the head ----
ip addr del fd77::fe/64 dev eth0 2>/dev/null # the rules are for IPv4
ports=20000-20015 # the job gets these ports, and Open MPI's daemons three of them
job --host 'v[1-3]' --port-range 20000-20099 sh -c 'ss -Hltn | awk "{print \$4}" | grep -v -e :22\$ -e ^127 -e "^\[::1\]"'
ok "--port-range: Open MPI's daemons listen on these ports only" all 'same $code 0' \
    'same "$(sed "s/.*:200[0-9][0-9]$/one of them/" out | sort -u)" "one of them"'
[ ! -x "$mpi_sum" ] || { job --host 'v[1-3]:2' --port-range 20000-20099 "$mpi_sum"
    ok "MPI works with --port-range" same "$(grep -c 'sum 6' out)" 6; }
if on v3 ip rule add to "$VHOSTS_NET.1" ipproto tcp dport 30000-65534 prohibit 2>log; then
    on v3 ip rule add to "$VHOSTS_NET.2" ipproto tcp dport 30000-65534 prohibit
    job --host 'v[1-3]:2' --port-range 20000-20099 --loader none -x WORLD_HOSTS=3 -x LD_LIBRARY_PATH --collectives tcp \
        "$top_builddir/tests/libdist/collectives/comm_world"
    ok "collectives over TCP work through a firewall that leaves the ports of --port-range open" same $code 0
    for i in 1 2; do on v3 ip rule del to "$VHOSTS_NET.$i" ipproto tcp dport 30000-65534 prohibit; done
else
    skip "a firewall and collectives" "$(cat log)"
fi
if on v2 ip rule add to "$VHOSTS_NET.254" ipproto tcp dport "$ports" prohibit 2>log; then
    job --host 'v[1-3]' --port-range "$ports" true
    ok "a port that one host cannot reach is detected before the start" all 'same $code 125' \
        'has "1 of 3 other hosts are not ready"' 'nothing_is_left' \
        'last_line_has "v2  *network  *it cannot connect to plenumrun at $VHOSTS_NET.254, port 2000[0-9] (.*): allow that in the firewall"'
    job --host 'v[1-3]' --port-range 20016-20099 true
    ok "the job works with other ports" same $code 0
    job --no-host-check --start-timeout 16 --host 'v[1-3]' --port-range "$ports" true
    ok "without the check, the port is detected when the job does not start" all 'same $code 125' \
        'last_line_has "v2  *network  *it cannot connect to plenumrun at $VHOSTS_NET.254, port 2000[0-9]"' 'nothing_is_left'
    on v2 ip rule del to "$VHOSTS_NET.254" ipproto tcp dport "$ports" prohibit
    ip rule add to "$VHOSTS_NET.2" ipproto tcp sport "$ports" blackhole
    job --start-timeout 16 --host 'v[1-3]' --port-range "$ports" true
    ok "a port whose packets are dropped is detected before the start" all 'same $code 125' 'nothing_is_left' \
        'last_line_has "v2  *network  *it cannot connect to plenumrun at .*port 2000[0-9] (Connection timed out)"'
    ip rule del to "$VHOSTS_NET.2" ipproto tcp sport "$ports" blackhole
    for p in 20001-20003 20005-20007; do ip rule add to "$VHOSTS_NET.2" ipproto tcp sport $p blackhole; done
    job --start-timeout 30 --host 'v[1-3]' --port-range "$ports" true
    ok "if only mpirun's port drops packets, the host is named" all 'same $code 125' nothing_is_left \
        'has "no response from instance 1 on host v2: Open MPI.s daemon there has not connected"' 'has_not "host v[13]"'
    for p in 20001-20003 20005-20007; do ip rule del to "$VHOSTS_NET.2" ipproto tcp sport $p blackhole; done
else
    skip "a port that one host cannot reach is detected before the start" "no firewall rules for ports here"
fi

job --host 'v[1-3]' --tag-output='%h:' sh -c 'seq -f "$RANK line %.0f" 50000'
ok "output of three hosts is complete and not mixed" same "$(awk '
    $1 != "v" $2 + 1 ":" || NF != 4 || $4 != last[$2] + 1 { bad++ }
    { last[$2] = $4 }
    END { print bad + 0, last[0], last[1], last[2] }' out)" "0 50000 50000 50000"
world=$top_builddir/tests/libdist/collectives/comm_world
export WORLD_HOSTS=3
for hosts in 'v[1-3]:2' 'v1:2,vhead:1,v2:1'; do
    job --host "$hosts" --loader none -x WORLD_HOSTS -x LD_LIBRARY_PATH --collectives tcp "$world"
    ok "collectives over TCP are right on $hosts" all 'same $code 0'
done
for what in ends silent leaves; do
    job --host 'v[1-3]' --loader none -x LD_LIBRARY_PATH --collectives tcp "$world" $what
    ok "an instance that has ended ($what) is named over TCP" all 'same $code 0'
done
job --host 'v[1-3]:2' --loader none -x LD_LIBRARY_PATH --collectives tcp "$world" carrier
ok "collectives use memory on each host with --collectives tcp" same "$(sort -u out)" memory

echo hello | timeout 300 "$run" --host v2,v1 sh -c 'echo $RANK: $(cat)' >out 2>err
ok "standard input reaches another host" same "$(sort out)" "0: hello
1:"
job --host v1:2 --print-topology sh -c 'sed -n "s/^Cpus_allowed_list:\s*//p" /proc/self/status'
ok "instances on a remote host are bound to the planned CPUs" same \
    "$(awk '$1 ~ /^[01]$/ && $2 == "v1" {print $6}' out | sort)" \
    "$(tail -n 2 out | sort)"

finish
