#!/bin/bash
# SPDX-License-Identifier: MIT
# vhosts.sh - makes virtual hosts for tests: to programs, they look like several machines.
#
# Each host is a set of namespaces (network, PID, mount, UTS, IPC). It has its own name and address on a
# private bridge, its own processes, /tmp, /run and /dev/shm, and its own sshd with a throw-away key. All
# other files are shared, as on a cluster with a network file system. Logins have the PATH with which "up"
# was called. The "head" is on the same bridge, with this machine's own processes and files; tests reach
# the hosts from there. It needs its own host name, because Open MPI assumes that processes on hosts with
# the same name share memory.
#
#   vhosts.sh up N            hosts v1 ... vN (needs root, iproute2, util-linux, sshd)
#   vhosts.sh head CMD...     run CMD at the head
#   vhosts.sh exec HOST CMD.. run CMD in HOST (standard input, signals and status pass)
#   vhosts.sh agent HOST CMD..do the same as "ssh HOST CMD", but without ssh; at the head only
#   vhosts.sh env agent|ssh   print shell lines that make mpirun use either
#   vhosts.sh drop|undrop HOST       begin and stop dropping packets to and from HOST
#   vhosts.sh freeze|thaw HOST       stop and continue all processes of HOST
#   vhosts.sh hide|unhide HOST DIR   cover DIR in HOST with an empty folder
#   vhosts.sh crash HOST             power HOST off
#   vhosts.sh boot HOST              power HOST on again
#   vhosts.sh sshd HOST              restart the sshd of HOST after it was killed
#   vhosts.sh ps              list the processes of all hosts, except those that make up the hosts
#   vhosts.sh down            end everything
#
# State is in $VHOSTS_DIR (which the hosts share); addresses are $VHOSTS_NET.1 and up. In the initial
# network namespace these are unreachable on purpose: nothing may leave the machine.
set -u
self=$(readlink -f "$0")
D=${VHOSTS_DIR:?must name a folder that can be made}
net=${VHOSTS_NET:-10.77.99}
die() { echo "vhosts: $*" >&2; exit 125; }
case $D in /*/..* | *//*) die "VHOSTS_DIR must be a plain absolute path" ;; /?*/?*) ;; *) die \
    "VHOSTS_DIR must lie below another folder" ;; esac
hosts() { [ ! -f "$D/hosts" ] || cat "$D/hosts"; }

# Pid files contain "PID STARTTIME", so that a reused process id is never touched.
start_time() {
	local s
	s=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
	s=${s##*) }
	set -- $s
	case $1 in [ZXx]) return 1 ;; esac
	echo "${20}"
}
remember() { echo "$2 $(start_time "$2")" >"$D/run/$1"; }
pid_of() {
	local p t
	[ -f "$D/run/$1" ] && read -r p t <"$D/run/$1" && [ "$(start_time "$p")" = "$t" ] && echo "$p"
}
init_of() { pid_of "$1.init" || die "host $1 is not up"; }
in_host() {
	local p
	p=$(init_of "$1") || exit
	shift
	nsenter -t "$p" -m -u -i -n -p -- "$@"
}
on_bridge() { nsenter -t "$(pid_of head)" -n -- "$@"; }
await() { # waits for the ready file of a namespace that is starting
	local i
	for ((i = 0; i < 500; i++)); do
		[ ! -e "$D/run/$1.ready" ] || return 0
		sleep 0.02
	done
	cat "$D/log/$1" >&2
	return 1
}

# ---- inside new namespaces ----
settle() { # gives the host a name, its own /sys, and private folders
	local name=$1 dir stage=$D/mnt share
	shift
	hostname "$name" || return
	mount -n --rbind /sys/fs/cgroup "$stage" && umount -n -l -R /sys && mount -n -t sysfs sysfs /sys &&
		mount -n --rbind "$stage" /sys/fs/cgroup && umount -n -l -R "$stage" || return
	for dir; do
		[ -d "$dir" ] && [ ! -L "$dir" ] || continue
		mount -n -t tmpfs -o mode=1777 vhost "$stage" || return
		while read -r share; do
			case $share/ in "$dir"/?*)
				mkdir -p "$stage/${share#"$dir"/}" && mount -n --bind "$share" "$stage/${share#"$dir"/}" || return ;;
			esac
		done <"$D/shares"
		mount -n --move "$stage" "$dir" || return
	done
	mount -n --bind "$D/etc/hosts" /etc/hosts && mount -n --bind "$D/etc/nsswitch.conf" /etc/nsswitch.conf || return
	echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6 2>/dev/null
	ip link set lo up
}
stay() { # process 1 of a host: bash reaps orphans at once while it is in read
	mkfifo "$D/run/$1.ctl" && exec 9<>"$D/run/$1.ctl" && : >"$D/run/$1.ready" && read -r -t 300 _ <&9 || exit 1
	while read -r _ <&9 || :; do :; done
}
cmd___host() {
	trap 'exit 0' TERM
	settle "$1" /tmp /var/tmp /run /dev/shm && chmod 755 /run && mkdir -p /run/sshd && stay "$1"
}
cmd___head() {
	settle vhead && ip link add eth0 type bridge && ip link set eth0 address 02:00:00:00:00:fe up &&
		ip addr add "$net.254/24" dev eth0 && stay head
}
cmd___spawn() { # records the process id before this shell becomes unshare, so that 'down' always finds the process
	local file=$1 what=$2
	shift 2
	remember "$file" $$ && exec unshare "$@" -- "$self" "__$what" "${file%.keeper}"
}
spawn() { setsid "$self" __spawn "$@" >"$D/log/${1%.keeper}" 2>&1 </dev/null & disown $!; }

# ---- commands ----
cmd_up() {
	local n=${1:?} h p c i
	[ "$(id -u)" = 0 ] || die "needs root"
	[ ! -e "$D/run" ] || die "$D is in use: 'down' first"
	mkdir -p "$D"/{run,log,etc,mnt,tmp,shared} && chmod 700 "$D" && : >"$D/.vhosts" || die "cannot write $D"
	export VHOSTS_DIR=$D VHOSTS_NET=$net
	trap 'cmd_down; exit 125' INT TERM HUP
	{ echo "$D"; dirname "$self"; pwd -P; [ -z "${VHOSTS_SHARE:-}" ] || echo "$VHOSTS_SHARE"; } | sort -u >"$D/shares"
	for ((i = 1; i <= n; i++)); do echo "v$i"; done >"$D/hosts"
	{
		echo "127.0.0.1 localhost"
		echo "$net.254 vhead"
		echo "$net.253 vghost" # a name whose address no host has
		for h in $(hosts); do echo "$net.${h#v} $h"; done
	} >"$D/etc/hosts"
	sed 's/^hosts:.*/hosts: files/' /etc/nsswitch.conf >"$D/etc/nsswitch.conf"
	printf '#!/bin/bash\nVHOSTS_DIR=%q VHOSTS_NET=%q exec %q agent "$@"\n' "$D" "$net" "$self" >"$D/agent"
	chmod +x "$D/agent"
	ip route add unreachable "$net.0/24" 2>/dev/null && : >"$D/run/guard"
	make_ssh
	spawn head head -n -u -m --propagation private
	await head && echo go >"$D/run/head.ctl" || { cmd_down; die "cannot make the head"; }
	for h in $(hosts); do spawn "$h.keeper" host -n -u -m -i -p --mount-proc --kill-child --propagation private; done
	for h in $(hosts); do connect "$h" || { cmd_down; die "cannot make $h"; }; done
	trap - INT TERM HUP
}
connect() { # gives a host its network and its sshd
	local h=$1 p i
	await "$h" || return
	for ((i = 0; i < 50; i++)); do
		p=$(pgrep -P "$(pid_of "$h.keeper")") && break
		sleep 0.02
	done
	remember "$h.init" "$p" && echo go >"$D/run/$h.ctl" &&
		on_bridge ip link add "$h" type veth peer name eth0 netns "$p" && on_bridge ip link set "$h" master eth0 up &&
		nsenter -t "$p" -n ip addr add "$net.${h#v}/24" dev eth0 && nsenter -t "$p" -n ip link set eth0 up &&
		cmd_sshd "$h"
}
cmd_sshd() { in_host "$1" /usr/sbin/sshd -f "$D/sshd_config" -E "$D/log/sshd.$1"; }
make_ssh() {
	ssh-keygen -q -t ed25519 -N '' -f "$D/id" && ssh-keygen -q -t ed25519 -N '' -f "$D/hostkey" || die "ssh-keygen failed"
	cat >"$D/sshd_config" <<-EOF
		HostKey $D/hostkey
		AuthorizedKeysFile $D/id.pub
		StrictModes no
		UsePAM no
		PermitRootLogin prohibit-password
		PasswordAuthentication no
		UseDNS no
		MaxStartups 100
		PidFile /run/sshd.pid
		SetEnv PATH=$PATH
	EOF
	cat >"$D/ssh_config" <<-EOF
		Host *
		  IdentityFile $D/id
		  IdentitiesOnly yes
		  StrictHostKeyChecking no
		  UserKnownHostsFile /dev/null
		  LogLevel ERROR
	EOF
}
cmd_exec() { in_host "$1" env -u TMPDIR -C "$PWD" "${@:2}"; }
cmd_head() {
	local p
	p=$(pid_of head) || die "not up"
	exec nsenter -t "$p" -n -u -m -- env -C "$PWD" TMPDIR="$D/tmp" VHOSTS_DIR="$D" VHOSTS_NET="$net" "$@"
}
cmd_agent() { # HOST CMD...: like with ssh, a shell that starts in HOME runs CMD
	local h=$1 p
	shift
	p=$(pid_of "$h.init") || { echo "vhosts: cannot reach host $h" >&2; exit 255; }
	exec nsenter -t "$p" -m -u -i -n -p -- env -i HOME="$HOME" USER=root LOGNAME=root SHELL=/bin/sh \
		PATH="$PATH" /bin/sh -c "cd; $*"
}
cmd_env() {
	echo "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
	if [ "$1" = ssh ]; then
		echo "export OMPI_MCA_plm_rsh_agent='ssh -F $D/ssh_config'"
		echo "unset OMPI_MCA_plm_rsh_no_tree_spawn"
	else
		echo "export OMPI_MCA_plm_rsh_agent=$D/agent OMPI_MCA_plm_rsh_no_tree_spawn=1"
	fi
}
cmd_drop() { on_bridge ip link set "$1" nomaster; }
cmd_undrop() { on_bridge ip link set "$1" master eth0; }
cmd_freeze() { in_host "$1" bash -c 'kill -STOP -1'; }
cmd_thaw() { in_host "$1" bash -c 'kill -CONT -1'; }
cmd_hide() { in_host "$1" mount -n -t tmpfs hidden "$2"; }
cmd_unhide() { in_host "$1" umount -n "$2"; }
cmd_crash() {
	local p
	p=$(init_of "$1") || exit
	cmd_drop "$1" # otherwise the host's processes would close their connections when they are killed
	kill -9 "$p"
	while pid_of "$1.init" >/dev/null; do sleep 0.01; done
}
cmd_boot() {
	! pid_of "$1.init" >/dev/null || die "host $1 is up"
	on_bridge ip link del "$1" 2>/dev/null # the kernel removes it some time after the host's end
	rm -f "$D/run/$1".{ready,ctl,init,keeper}
	spawn "$1.keeper" host -n -u -m -i -p --mount-proc --kill-child --propagation private
	connect "$1"
}
cmd_ps() {
	local h
	for h in $(hosts); do
		pid_of "$h.init" >/dev/null && in_host "$h" ps -eo pid,ppid,stat,args | sed "s/^/$h: /" |
			grep -v -e 'PPID' -e 'ps -eo' -e 'vhosts.sh __host' -e 'sshd' -e ' Z' -e defunct
	done
	:
}
cmd_down() {
	local f p q i
	trap - INT TERM HUP
	[ -e "$D/.vhosts" ] || return 0
	if p=$(pid_of head); then # processes still at the head belong to these hosts, too: no others can be in its namespace
		i=$(readlink "/proc/$p/ns/net")
		for q in $(find /proc -maxdepth 3 -path '/proc/[0-9]*/ns/net' -lname "${i//[\[\]]/?}" 2>/dev/null | cut -d/ -f3); do
			[ "$q" = "$p" ] || kill -9 "$q" 2>/dev/null
		done
		kill -9 "$p"
	fi
	for f in "$D"/run/*.init "$D"/run/*.keeper; do
		f=${f##*/}
		p=$(pid_of "$f") && kill -9 "$p"
	done 2>/dev/null
	for ((i = 0; i < 250; i++)); do
		q=0
		for f in "$D"/run/*.init "$D"/run/head; do pid_of "${f##*/}" >/dev/null && q=1; done
		[ $q = 1 ] || break
		sleep 0.02
	done
	[ ! -e "$D/run/guard" ] || ip route del unreachable "$net.0/24" 2>/dev/null
	cd / && rm -rf --one-file-system "${D:?}"
	return 0
}

command=${1:-}
shift
case $command in
up | down | head | exec | agent | env | sshd | drop | undrop | freeze | thaw | hide | unhide | crash | boot | ps | \
    __spawn | __host | __head) "cmd_$command" "$@" ;;
*) sed -n '3,/^set -u/s/^# \{0,1\}//p' "$self" >&2; exit 125 ;;
esac
