#!/bin/bash
# SPDX-License-Identifier: MIT
# numavm.sh - run a command under a kernel that has several NUMA nodes: a small emulated machine (QEMU without hardware
# acceleration, so it works anywhere). It has this machine's files, read-only, with a scratch layer on top that is
# discarded at the end.
#
# Needs Debian's qemu-system-x86, busybox-static, cpio and a kernel package that has 9p and overlay modules
# (linux-image-amd64: unpacked, not installed).
set -eu
nodes=4 cores=2 mem=384 limit=300 distant='' extra='' K=${NUMAVM_KERNEL:-/tmp/numavm-kernel}

usage() {
	cat <<EOF
usage: numavm.sh fetch                         get and unpack a kernel into \$NUMAVM_KERNEL ($K)
       numavm.sh [OPT]... [--] CMD [ARG]...    run CMD in the guest; its output and exit status
  -n NODES      NUMA nodes, 1 to 8 (default $nodes)
  -c CORES      cores per node (default $cores)
  -m MB         memory per node (default $mem)
  -p PACKAGES   processor packages (default: 2 when NODES is even, else 1)
  -d            distances of a two-package machine: 10 local, 12 same package, 32 other
  -e MB         one more node, of memory without CPUs
  -t SECONDS    limit for all of it (default $limit)
  -v            show the guest's console on standard error
CMD runs as root in the current directory (all files of this machine are there;
what it writes is lost, except what it prints).  Exit 124: limit; 125: no guest.
EOF
}
die() { echo "numavm: $*" >&2; exit 125; }

fetch() {
	local p t; p=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image/{print $2; exit}')
	[ -n "$p" ] || die "no kernel package known"
	t=$(mktemp -d)
	( cd "$t" && apt-get -q download "$p" >/dev/null && dpkg-deb --fsys-tarfile ./*.deb | tar -x ) || die "cannot get $p"
	mkdir -p "$K"; cp "$t"/boot/vmlinuz-* "$K/vmlinuz"
	local m; for m in virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci netfs fscache 9pnet \
	    9pnet_virtio 9p overlay; do
		find "$t/lib/modules" -name "$m.ko" -exec cp {} "$K/" \; ; done
	rm -rf "$t"; ls "$K" | paste -sd' '
}

packages='' verbose=''
[ "${1:-}" != fetch ] || { fetch; exit; }
while getopts n:c:m:p:t:e:dvh o; do case $o in
	n) nodes=$OPTARG ;; c) cores=$OPTARG ;; m) mem=$OPTARG ;; p) packages=$OPTARG ;; t) limit=$OPTARG ;;
	d) distant=1 ;; e) extra=$OPTARG ;; v) verbose=1 ;; h) usage; exit ;; *) usage >&2; exit 125 ;; esac; done
shift $((OPTIND - 1)); [ $# -gt 0 ] || { usage >&2; exit 125; }
[ -f "$K/vmlinuz" ] || die "no kernel in $K (numavm.sh fetch)"
[ -n "$packages" ] || { packages=1; [ $((nodes % 2)) = 1 ] || packages=2; }
for b in qemu-system-x86_64 cpio; do command -v $b >/dev/null || die "$b is missing"; done
[ -x /bin/busybox ] || die "busybox-static is missing"

T=$(mktemp -d) Q=''
trap '[ -z "$Q" ] || kill "$Q" 2>/dev/null; rm -rf "$T"' EXIT; trap 'exit 130' INT; trap 'exit 143' TERM
trap 'exit 129' HUP
mkdir -p "$T/r"/{bin,dev,proc,sys,m,low,up,root}
cp /bin/busybox "$T/r/bin/"
for a in sh mount mkdir insmod chroot stty echo poweroff cat hostname sleep ip; do ln -s busybox "$T/r/bin/$a"; done
cp "$K"/*.ko "$T/r/m/"
{ printf 'cd %q || exit 125\n' "$PWD"; printf 'exec'; printf ' %q' "$@"; echo; } >"$T/r/cmd"
env | grep -E '^(OMPI_|PMIX_|HWLOC_|PATH=|LD_LIBRARY_PATH=|NUMAVM_|top_|PYTHON=)' |
    sed "s/'/'\\\\''/g; s/=\(.*\)/='\1'/; s/^/export /" >"$T/r/env" || :
cat >"$T/r/init" <<'EOF'
#!/bin/sh
mount -t devtmpfs dev /dev; mount -t proc proc /proc; mount -t sysfs sysfs /sys
stty -F /dev/ttyS1 raw -echo; stty -F /dev/ttyS2 raw -echo
for m in virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci netfs fscache 9pnet 9pnet_virtio 9p \
    overlay; do
    [ ! -f /m/$m.ko ] || insmod /m/$m.ko
done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=524288 root /low || echo "no 9p"
mount -t tmpfs tmpfs /up; mkdir /up/u /up/w
mount -t overlay -o lowerdir=/low,upperdir=/up/u,workdir=/up/w overlay /root || echo "no overlay"
for d in dev proc sys; do mount --rbind /$d /root/$d; done
mkdir -p /root/dev/shm /root/dev/pts; mount -t tmpfs -o mode=1777 tmpfs /root/dev/shm; mount -t devpts pts /root/dev/pts
mount -t tmpfs -o mode=755 tmpfs /root/run
hostname numavm; ip link set lo up
cat /env /cmd >/root/run/cmd
export HOME=/root TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
chroot /root /bin/bash /run/cmd </dev/null >/dev/ttyS1 2>&1; echo $? >/dev/ttyS2
poweroff -f; sleep 10
EOF
chmod +x "$T/r/init"; (cd "$T/r" && find . | cpio -o -H newc --quiet | gzip -1) >"$T/initrd"

n=$((nodes * cores))
a=(-smp "$n,sockets=$packages,cores=$((n / packages)),threads=1" -m "$((nodes * mem + ${extra:-0}))M")
for ((i = 0; i < nodes; i++)); do
	a+=(-object "memory-backend-ram,size=${mem}M,id=m$i" \
	    -numa "node,nodeid=$i,cpus=$((i * cores))-$(((i + 1) * cores - 1)),memdev=m$i"); done
[ -z "$extra" ] || a+=(-object "memory-backend-ram,size=${extra}M,id=m$nodes" -numa "node,nodeid=$nodes,memdev=m$nodes")
[ -z "$distant" ] || for ((i = 0; i < nodes; i++)); do for ((j = 0; j < nodes; j++)); do
	d=32; [ $((i * packages / nodes)) != $((j * packages / nodes)) ] || d=12; [ $i != $j ] || d=10
	a+=(-numa "dist,src=$i,dst=$j,val=$d"); done; done
: >"$T/rc"; con="file:$T/con"
setpriv --pdeathsig TERM timeout "$limit" setpriv --pdeathsig KILL qemu-system-x86_64 -accel tcg,thread=multi -cpu max \
    "${a[@]}" -nodefaults -display none -nic none -no-reboot \
	-kernel "$K/vmlinuz" -initrd "$T/initrd" -append "console=ttyS0 quiet panic=-1 mitigations=off" \
	-virtfs local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap \
	-serial "$con" -serial stdio -serial "file:$T/rc" </dev/null 2>"$T/qemu.err" &
Q=$!; rc=0; wait $Q || rc=$?; Q=''
[ -z "$verbose" ] || cat "$T/con" "$T/qemu.err" >&2
[ $rc != 124 ] || exit 124
read -r g <"$T/rc" && exit "$g"
cat "$T/qemu.err" "$T/con" >&2 2>/dev/null; die "the guest did not report (qemu: $rc)"
