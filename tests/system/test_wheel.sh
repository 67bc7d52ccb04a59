#!/bin/bash
# SPDX-License-Identifier: MIT
# test_wheel.sh - tests scripts/wheel's wheel in fresh systems: minimal ones made by debootstrap, with Python's venv, but
# without a compiler, the libraries that Plenum needs, or Open MPI. The wheel is installed into an environment that is
# not activated, a job runs, and the wheel is removed. Then jobs run with the system's Open MPI, also on two virtual
# hosts. make check-wheel runs this. PLENUM_WHEEL names an existing wheel; PLENUM_ROOTS names the folder where the
# systems are kept (default: roots in the build folder; they stay unchanged once made); WHEEL_SYSTEMS selects systems;
# ARCH=aarch64 selects another processor, which qemu emulates. Prints TAP. Needs root, debootstrap, and archives of
# Debian, Ubuntu and Python packages.
. "$top_srcdir/tests/lib.sh"

# Each line has a system's name, mirror, keyring, script of debootstrap and version of Python.
systems="bookworm http://deb.debian.org/debian debian-archive-keyring bookworm 3.11
trixie http://deb.debian.org/debian debian-archive-keyring trixie 3.13
noble http://archive.ubuntu.com/ubuntu ubuntu-archive-keyring gutsy 3.12"
arch=${ARCH:-$(uname -m)}
# Systems and wheels for other processors have their own folders.
foreign=
[ "$arch" = "$(uname -m)" ] || foreign=-$arch

outside() {
    local roots=${PLENUM_ROOTS:-$top_builddir/roots} wheel=${PLENUM_WHEEL:-} build=$top_builddir/wheel$foreign \
        options=() count
    [ "$(id -u)" = 0 ] || skip_all "debootstrap and mounting need root"
    command -v debootstrap >/dev/null || skip_all "debootstrap is not installed"
    if [ -n "$foreign" ]; then
        [ "$arch" = aarch64 ] || skip_all "there is no wheel for $arch"
        grep -qs ^enabled "/proc/sys/fs/binfmt_misc/qemu-$arch" ||
            skip_all "the kernel does not start programs for $arch (install qemu-user-static; systemctl restart systemd-binfmt)"
        systems=${systems/archive.ubuntu.com\/ubuntu/ports.ubuntu.com/ubuntu-ports}
        # These are all platforms that NumPy has published wheels for.
        options=(--platform manylinux2014_$arch --platform manylinux_2_27_$arch --platform manylinux_2_28_$arch)
    fi
    if [ -z "$wheel" ]; then
        "$top_srcdir/scripts/wheel" "$build" >"$T/log" 2>&1 || { tail -n 20 "$T/log" |
            sed 's/^/# /'; echo "Bail out! scripts/wheel fails"; exit 1; }
        wheel=$(ls "$build"/pyplenum-*_"$arch".whl)
    fi
    content
    mkdir -p "$roots" "$T/share/tests"
    cp "$wheel" "$top_srcdir/tests/system/test_wheel.sh" "$T/share/"
    mkdir -p "$T/share/tests/system"
    cp "$top_srcdir/tests/lib.sh" "$T/share/tests/"
    cp "$top_srcdir/tests/system/vhosts.sh" "$T/share/tests/system/"
    sed -n '/^# first.py - /,/^```$/p' "$top_srcdir/docs/guide.md" | sed '$d' >"$T/share/first.py"
    # Compute the hash of the same pictures in this build.
    "$top_builddir/plenumctl" make-sample "$T/photos" --classes 4 --images 12 --size 80 >/dev/null
    "$top_builddir/plenumctl" hash "$T/photos" --pipeline 'rrc(48)flip(0.5)' --seed 7 --epochs 2 >"$T/share/hash"
    # An authority for a server within the systems.
    openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 \
        -keyout "$T/share/server.key" -out "$T/share/server.pem" 2>/dev/null
    chmod a+r "$T/share/server.key"
    while read -r name mirror keyring script python; do
        keyring=/usr/share/keyrings/$keyring.gpg
        case " ${WHEEL_SYSTEMS:-$name} " in *" $name "*) ;; *) continue ;; esac
        if [ ! -e "$roots/$name$foreign.done" ]; then
            if [ ! -e "$keyring" ]; then
                skip "the wheel in $name" "its archive's keyring $keyring is missing"
                continue
            fi
            rm -rf --one-file-system "${roots:?}/$name$foreign"
            if ! debootstrap ${foreign:+--arch=arm64} \
                --keyring="$keyring" --variant=minbase --include=python3-venv --components=main,universe \
                "$name" "$roots/$name$foreign" "$mirror" "$script" >"$T/log" 2>&1; then
                skip "the wheel in $name" "debootstrap: $(tail -n 1 "$T/log")"
                continue
            fi
            : >"$roots/$name$foreign.done"
        fi
        if ! python3 -m pip -q --disable-pip-version-check download --no-deps --only-binary :all: \
            --python-version "$python" "${options[@]}" \
            --dest "$T/share/numpy-$name" numpy >"$T/log" 2>&1; then
            skip "the wheel in $name" "no NumPy for Python $python: $(tail -n 1 "$T/log")"
            continue
        fi
        # Mounts end with the last process of the namespace.
        mkdir -p "$T/system"
        NAME=$name FOREIGN=$foreign LOWER=$roots/$name$foreign SYSTEM=$T/system SHARE=$T/share COUNT=$tap_count \
            unshare --mount --pid --fork --kill-child --propagation private -- \
            bash "$top_srcdir/tests/system/test_wheel.sh" --mount </dev/null | tee "$T/lines"
        count=$(grep -cE '^(not )?ok ' "$T/lines")
        tap_count=$((tap_count + count))
        grep -q '^# all of it$' "$T/lines" || result 1 "the test in $name runs to its end"
    done <<<"$systems"
    finish
}

# Check the contents of the wheel.
content() {
    python3 - "$wheel" >"$T/list" <<'P'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z:
    names = z.namelist()
    print("\n".join(names))
    print("e_machine", *sorted({str(int.from_bytes(c[18:20], "little")) for c in map(z.read, names) if c[:4] == b"\x7fELF"}))
    print("licences", " ".join(z.read(n).decode(errors="replace") for n in names if ".dist-info/licenses/" in n), sep="\n")
P
    echo "# $(basename "$wheel"): $(stat -c %s "$wheel") bytes"
    local name libraries="plenumd plenumctl plenumrun libplenum.so.1 libplenum-tls.so \
        libplenum-store.so libplenum-mpi.so"
    for name in $libraries; do ok "the wheel has $name" grep -qx "pyplenum/bin/$name" "$T/list"; done
    is "e_machine $(case $arch in aarch64) echo 183 ;; x86_64) echo 62 ;; esac)" "all programs are for $arch" grep \
        ^e_machine "$T/list"
    python3 -m zipfile -e "$wheel" "$T/content"
    is "" "run paths point into the wheel or the system" eval \
        "readelf -d '$T'/content/pyplenum/bin/* '$T'/content/pyplenum.libs/* | grep -E 'R(UN)?PATH' | grep -vE '\[([\$]ORIGIN[^:]*|/usr/lib/[^:]*)\]'"
    ok "the wheel has no library of Open MPI" status 1 grep -E '^pyplenum.libs/lib(mpi|pmix|open-)' "$T/list"
    ok "the wheel has the licences of its libraries" grep -q 'GNU LESSER GENERAL PUBLIC LICENSE' "$T/list"
    for name in $(sed -n 's|^pyplenum.libs/lib\([a-z]*\).*|\1|p' "$T/list" | sort -u); do
        ok "the wheel has the licence of lib$name" grep -qiE "licenses/[a-z0-9]*($name|${name#micro}|openssl|libssl)" "$T/list"
    done
}

mounted() {
    local root=$SYSTEM/root n
    mount -t tmpfs -o size=4G tmpfs "$SYSTEM" && mkdir "$SYSTEM"/{up,work,root} &&
        mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$SYSTEM/up,workdir=$SYSTEM/work" "$root" &&
        mount -t proc proc "$root/proc" && mount -t sysfs -o ro sysfs "$root/sys" && mount -t tmpfs tmpfs "$root/dev" &&
        mkdir -p "$root"/dev/{pts,shm} "$root/share" &&
        mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts" &&
        mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm" && mount --bind "$SHARE" "$root/share" || exit 99
    for n in null zero full random urandom tty; do : >"$root/dev/$n" && mount --bind "/dev/$n" "$root/dev/$n" ||
        exit 99; done
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    echo 'alice:x:1234:1234::/home/alice:/bin/bash' >>"$root/etc/passwd"
    # pivot_root makes this folder the root of all of its namespaces, so that it can have its own virtual hosts.
    mkdir "$root/old" && cd "$root" && pivot_root . old && cd / && umount -l /old && rmdir /old || exit 99
    exec /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root DEBIAN_FRONTEND=noninteractive \
        TMPDIR=/tmp \
        NAME="$NAME" FOREIGN="$FOREIGN" COUNT="$COUNT" top_srcdir=/share top_builddir=/share bash /share/test_wheel.sh \
        --inside
}

alice() { setpriv --reuid 1234 --regid 1234 --clear-groups env -u PLENUM_CACHE_DIR HOME=/home/alice "$@"; }
# pip leaves empty folders outside of site-packages, so list only files.
everything() { find /home/alice/env -not -type d -not -path '*/numpy*' -not -path '*/pip/*' | sort; }
hash_in() { grep -oE '\b[0-9a-f]{16}\b' "$1" | tail -n 1; }
job() { job_of photos "$@"; }
job_of() { # DATASET SENTENCE COMMAND...: runs first.py, whose hash must be right
    local dataset=$1 sentence=$2
    shift 2
    alice timeout -k 5 600 "$@" /share/first.py "$dataset" >out 2>err || echo "status $?" >>err
    cat out >>err
    [ "$(hash_in out)" = "$want" ]
    result $? "$NAME: $sentence" err
}
signals_ignored() { sed -n 's/^SigIgn:\t//p' "$1"; }

inside() {
    local code pid program object
    tap_count=$COUNT
    mkdir -p /home/alice && chown 1234:1234 /home/alice && cd /home/alice || exit 99
    want=$(hash_in /share/hash)
    alice python3 -m venv env
    alice env/bin/pip -q install --no-index --find-links "/share/numpy-$NAME" numpy
    everything >/before
    ok "$NAME: a user's pip installs it" alice env/bin/pip install --no-index --find-links "/share/numpy-$NAME" \
        /share/pyplenum-*.whl
    for program in plenumd plenumctl plenumrun; do
        ok "$NAME: $program prints its version" alice env/bin/$program --version
        for object in env/lib/python3*/site-packages/pyplenum/bin/$program; do
            ok "$NAME: $program lacks no library" status 1 grep "not found" <(ldd "$object")
        done
    done
    alice env/bin/plenumctl make-sample photos --classes 4 --images 12 --size 80 >/dev/null
    is "$want" "$NAME: plenumctl hash" eval \
        "alice env/bin/plenumctl hash photos --pipeline 'rrc(48)flip(0.5)' --seed 7 --epochs 2 | grep -oE '\b[0-9a-f]{16}\b'"
    job "a stream with its own loader, in an environment that is not activated" env/bin/python
    alice env/bin/python -c "import tarfile; t = tarfile.open('photos.tar', 'w'); t.add('photos', '.'); t.close()"
    is "$want" "$NAME: a tar archive is read" eval \
        "alice env/bin/plenumctl hash tar,label=folder:photos.tar --pipeline 'rrc(48)flip(0.5)' --seed 7 --epochs 2 | grep -oE '\b[0-9a-f]{16}\b'"

    from_a_store

    # Start a loader with a status page, and over TCP with a key, which needs libplenum-tls and OpenSSL.
    alice sh -c 'umask 077; head -c 32 /dev/urandom >loader.key; env/bin/plenumctl key loader.key alice >alice.key'
    setpriv --reuid 1234 --regid 1234 --clear-groups env/bin/plenumd --socket unix:/home/alice/socket \
        --listen 127.0.0.1:7411 --tls-key loader.key \
        --http-port 7412 2>log &
    pid=$!
    wait_for grep -q "decodes\\? for" log
    job "a stream over TLS" env PLENUM_LOADER=tcp:127.0.0.1:7411 PLENUM_LOADER_KEY=alice.key env/bin/python
    is 200 "$NAME: the status page" \
        env/bin/python -c "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:7412/').status)"
    kill -TERM $pid
    wait $pid
    code=$?
    is 0 "$NAME: a loader ends on SIGTERM" echo $code

    alice env/bin/plenumrun -n 1 true 2>err
    if [ -n "$FOREIGN" ]; then
        ok "$NAME: plenumrun reports that it does not run in qemu" \
            grep -q '^plenumrun: error: no process can adopt orphans here' err
    elif grep -q 'mpirun was not found' err; then
        skip "$NAME: plenumrun, without Open MPI" "plenumrun needs mpirun here"
    else
        job "plenumrun -n 1, without Open MPI" env/bin/plenumrun -n 1 env/bin/python
        job "two instances, without Open MPI" env/bin/plenumrun -n 2 --num-replicas 4 env/bin/python
    fi
    alice env/bin/plenumrun --host a,b true 2>err
    code=$?
    [ -n "$FOREIGN" ] || ok "$NAME: several hosts are rejected with a message" eval \
        '[ $code = 125 ] && grep -qx "plenumrun: error: mpirun was not found in PATH: to start instances on other hosts, install Open MPI .*" err'
    with_mpi
    ok "$NAME: pip removes the wheel" alice env/bin/python -m pip uninstall -y pyplenum
    everything >/after
    ok "$NAME: pip leaves no files" diff /before /after
    echo "# all of it"
}

# A job reads the archive behind HTTPS, whose server the system's authorities must have signed for.
from_a_store() {
    local name=tar,label=folder:https://127.0.0.1:7413/photos.tar known=/etc/ssl/certs/ca-certificates.crt pid
    env/bin/python - >log 2>&1 <<'P' &
import http.server, ssl
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/share/server.pem", "/share/server.key")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 7413), http.server.SimpleHTTPRequestHandler)
server.socket = context.wrap_socket(server.socket, server_side=True)
print("serves", flush=True)
server.serve_forever()
P
    pid=$!
    wait_for grep -q serves log
    is "" "$NAME: a server whose certificate is unknown is not trusted" eval \
        "alice env/bin/plenumctl hash $name 2>err; grep -q \"the server's certificate is not valid\" err || cat err"
    mkdir -p "${known%/*}"
    cat /share/server.pem >>"$known"
    job_of "$name" "a job from an archive behind HTTPS, with the system's authorities" env/bin/python
    kill $pid
    wait $pid 2>/dev/null
}

# The wheel's commands replace themselves by the programs: process, signals and variables are as if a shell had started
# the programs.
started() {
    local code pid
    alice env/bin/plenumrun -n 1 cat /proc/self/status >out 2>err
    alice "$(echo env/lib/python3*/site-packages/pyplenum/bin/plenumrun)" -n 1 cat /proc/self/status >out2 2>err
    is "$(signals_ignored out2)" "$NAME: the wheel's command leaves the ignored signals as they are" signals_ignored out
    alice env -u LC_ALL env/bin/plenumrun -n 1 env 2>err | sed 's/=.*//' | sort >out
    alice env -u LC_ALL "$(echo env/lib/python3*/site-packages/pyplenum/bin/plenumrun)" -n 1 env 2>err | sed 's/=.*//' |
        sort >out2
    ok "$NAME: the wheel's command adds no variable" diff out2 out
    setpriv --reuid 1234 --regid 1234 --clear-groups env/bin/plenumrun -n 1 sleep 1000 2>err &
    pid=$!
    ok "$NAME: plenumrun is the process that was started" wait_for \
        sh -c "readlink /proc/$pid/exe | grep -q 'pyplenum/bin/plenumrun$'"
    wait_for look_for_sleep
    kill -TERM $pid
    wait $pid
    code=$?
    is 143 "$NAME: plenumrun ends on a signal sent to that process" echo $code
    ok "$NAME: all processes that it started end with it" status 1 look_for_sleep
}
look_for_sleep() { cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' | grep -E '(^| )sleep 1000'; }

with_mpi() {
    local what="two instances, with the system's Open MPI"
    if [ -n "$FOREIGN" ]; then
        skip "$NAME: $what" "plenumrun does not run in qemu's user mode"
        return
    fi
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod +x /usr/sbin/policy-rc.d
    if ! { apt-get update && apt-get install -y --no-install-recommends openmpi-bin; } >log 2>&1; then
        skip "$NAME: $what" "no archive is reachable"
        return
    fi
    job "$what" env/bin/plenumrun -n 2 --num-replicas 4 env/bin/python
    started
    several_hosts
}

# The hosts have nothing of Plenum except the environment, at the same path.
several_hosts() {
    local vhosts=/share/tests/system/vhosts.sh what="two hosts, by ssh"
    export VHOSTS_DIR=/tmp/vhosts VHOSTS_SHARE=/home/alice
    if ! apt-get install -y --no-install-recommends iproute2 openssh-client openssh-server procps >log 2>&1; then
        skip "$NAME: $what" "the tools for virtual hosts cannot be installed"
        return
    fi
    [ -e /etc/hosts ] || echo "127.0.0.1 localhost" >/etc/hosts
    if ! "$vhosts" up 2 >log 2>&1; then
        skip "$NAME: $what" "no virtual hosts can be made here: $(tail -n 1 log)"
        return
    fi
    eval "$("$vhosts" env ssh)"
    "$vhosts" head timeout -k 5 300 env/bin/plenumrun --allow-run-as-root --host v1,v2 env/bin/python /share/first.py \
        photos >out 2>err || echo "status $?" >>err
    cat out >>err
    [ "$(hash_in out)" = "$want" ]
    result $? "$NAME: $what" err
    "$vhosts" head timeout -k 5 300 env/bin/plenumrun --allow-run-as-root --host v1,v2 hostname >out 2>err
    is "v1 v2" "$NAME: one instance on each host" eval 'echo $(sort out)'
    "$vhosts" down
}

case ${1:-} in
"") outside ;;
--mount) mounted ;;
--inside) inside ;;
esac
