#!/bin/bash
# SPDX-License-Identifier: MIT
# test_containers.sh - builds the images of examples/containers with buildah (no engine, chroot isolation), based on a
# folder made by debootstrap (PLENUM_DEBIAN=DIR, which stays unchanged), and runs their programs. Takes minutes, and
# downloads packages from a Debian mirror. Prints TAP.
. "$top_srcdir/tests/lib.sh"

[ -n "${PLENUM_DEBIAN:-}" ] || skip_all "PLENUM_DEBIAN does not name a folder made by debootstrap"
[ "$(id -u)" = 0 ] || skip_all "buildah's chroot isolation needs root"
command -v buildah >/dev/null || skip_all "buildah is missing"
command -v git >/dev/null && git -C "$top_srcdir" rev-parse --git-dir >/dev/null 2>&1 ||
    skip_all "the sources are not a git checkout"

ctl=$top_builddir/plenumctl system=$(realpath "$PLENUM_DEBIAN")
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
b() { buildah --root "$T/storage" --runroot "$T/run" "$@"; }
at_end() { b rm -a >/dev/null 2>&1; b rmi -af >/dev/null 2>&1; }
run() { b run "$@" >out; }
build() {
    b bud --network host --build-arg BASE=localhost/base -t "localhost/$1" \
        -f "src/examples/containers/Containerfile.${1#plenum-}" src >"$1.log" 2>&1
}

cd "$T" || exit 99
mkdir src && git -C "$top_srcdir" ls-files -z -co --exclude-standard | tar -C "$top_srcdir" --null -T - -cf - |
    tar xf - -C src || exit 99
base=$(b from scratch) && b add -q "$base" "$system" / >/dev/null && b commit -q "$base" localhost/base >/dev/null ||
    exit 99
"$ctl" make-sample data --classes 4 --images 10 --size 96 >/dev/null && chmod a+rx . && chmod -R a+rX data || exit 99

ok "the loader's image is built" build plenum-loader
tail -n 20 plenum-loader.log | sed 's/^/# /'
c=$(b from localhost/plenum-loader)
ok "plenumd runs in the image" run "$c" -- plenumd --version
ok "the image's user is not root" run "$c" -- test "$(b run "$c" -- id -u)" = 10001
ok "the image has no compiler" eval '! run "$c" -- sh -c "command -v gcc"'
ok "keys work" run "$c" -- \
    sh -c 'umask 077; head -c 32 /dev/urandom >/tmp/key; timeout 1 plenumd --socket unix:/tmp/s --listen 127.0.0.1:0 --tls-key /tmp/key; [ $? = 0 -o $? = 124 ]'
ok "the loader serves a stream" run -v "$T/data:/data:ro" "$c" -- sh -c '
    plenumd --root /data --socket unix:/run/plenum/plenumd.sock & p=$!
    until plenumctl status unix:/run/plenum/plenumd.sock >/dev/null 2>&1; do sleep 0.1; kill -0 $p || exit 1; done
    plenumctl bench stream /data --pipeline "resize(32) center_crop(32)" --sources real --seconds 1s --rounds 1 \
        --loader unix:/run/plenum/plenumd.sock
    r=$?
    kill $p; wait $p || exit 1; exit $r'

ok "the training image is built" build plenum-training
tail -n 20 plenum-training.log | sed 's/^/# /'
c=$(b from localhost/plenum-training)
cat >feed.py <<'END'
import pyplenum
job = pyplenum.job()
stream = pyplenum.Stream("/data", pipeline="rrc(48)flip(0.5)", seed=3, micro_batch=4, epochs=2)
print(job.instance_index, sum(batch.num_valid for batch in stream))
END
chmod a+r feed.py
ok "a job of two runs in the image, without root" run -v "$T/data:/data:ro" -v "$T/feed.py:/feed.py:ro" "$c" -- \
    plenumrun -n 2 python3 /feed.py
ok "each instance in the image gets its share of the samples" test "$(sort out)" = "0 40
1 40"

# Run job-mpi.yaml and loader-service.yaml without a cluster: four hosts of vhosts.sh are the pods. They get the files
# that Kubernetes and the MPI operator would mount, and the users and privileges of the manifests, and run the commands
# of the manifests unchanged.
vhosts=$top_srcdir/tests/system/vhosts.sh
export VHOSTS_DIR=$T/v VHOSTS_NET=10.77.$((100 + $$ % 100)) VHOSTS_SHARE=$T
at_end() { "$vhosts" down; b rm -a >/dev/null 2>&1; b rmi -af >/dev/null 2>&1; }
/usr/bin/python3 -c 'import yaml' 2>/dev/null || { skip "an MPIJob" "python3-yaml is missing"; finish; exit; }
/usr/bin/python3 - "$top_srcdir" >words 2>err <<'END' || { result 1 "the manifests say what their containers run" \
    err; finish; exit; }
import shlex, sys, yaml
def container(name, *where):
    for each in yaml.safe_load_all(open(f"{sys.argv[1]}/examples/kubernetes/{name}")):
        if each["kind"] in ("MPIJob", "Deployment"):
            for key in where:
                each = each[key]
            return each["template"]["spec"]["containers"][0]
for name, words in (("launcher", container("job-mpi.yaml", "spec", "mpiReplicaSpecs", "Launcher")),
                    ("worker", container("job-mpi.yaml", "spec", "mpiReplicaSpecs", "Worker")),
                    ("loader", container("loader-service.yaml", "spec"))):
    command = words.get("command", ["plenumd", "--socket", "unix:/run/plenum/plenumd.sock", "--socket-mode", "0666"])
    print(f"{name}=({shlex.join(command + words['args'])})")
END
. ./words
# Copy the images to plain folders: virtual hosts do not see mounts of this script.
training=$T/training service=$T/service
cp -a "$(b mount "$c")" "$training" && cp -a "$(b mount "$(b from localhost/plenum-loader)")" "$service" || exit 99
if ! "$vhosts" up 4 >log 2>&1; then
    sed 's/^/# /' log
    skip "an MPIJob" "no virtual hosts can be made here: $(tail -n 1 log)"
    finish
    exit
fi
secret() { # FOLDER GROUP MODE FILE...: creates the files of a secret as the kubelet does
    local folder=$1 group=$2 mode=$3 file
    shift 3
    mkdir -p "$folder/..of-today" && ln -s ..of-today "$folder/..data"
    for file; do
        cp "$file" "$folder/..of-today/" && ln -s "..data/$(basename "$file")" "$folder/"
    done
    chown -R "0:$group" "$folder" && chmod "$mode" "$folder"/..of-today/* && chmod 3777 "$folder"
}
ssh-keygen -q -t ecdsa -b 521 -m PEM -N '' -f id_rsa && cp id_rsa.pub authorized_keys &&
    (umask 077 && head -c 32 /dev/urandom >loader && "$ctl" key loader training >client) || exit 99
secret ssh 1000 0644 id_rsa id_rsa.pub authorized_keys
secret key 1000 0440 client
secret loaders-key 10001 0440 loader
mkdir mpi job && cp feed.py job/train.py &&
    sed -i 's|"/data"|"/data/train"|; s/micro_batch=4/micro_batch=1/' job/train.py && chmod -R a+rX job data
printf 'v2 slots=4\nv3 slots=4\n' >mpi/hostfile
{ cat v/etc/hosts; echo "$VHOSTS_NET.4 plenum-loader"; } >names
mkdir -p "$training"/etc/plenum/key "$training"/etc/mpi "$training"/job "$training"/home/trainer/.ssh \
    "$service"/etc/plenum/key "$service"/data/train
pod() { # HOST ROOT MOUNT=FOLDER...: starts a pod with its own /tmp and /run, and these folders mounted read-only
    local host=$1 root=$2 each
    shift 2
    "$vhosts" exec "$host" mount --bind "$root" "$root" && "$vhosts" exec "$host" mount -t proc proc "$root/proc" &&
        "$vhosts" exec "$host" mount --rbind /dev "$root/dev" && "$vhosts" exec "$host" mount --bind /tmp "$root/tmp" &&
        "$vhosts" exec "$host" mount -t sysfs -o ro sysfs "$root/sys" &&
        "$vhosts" exec "$host" mount --bind names "$root/etc/hosts" || return
    for each; do "$vhosts" exec "$host" mount --bind -o ro "${each#*=}" "$root${each%%=*}" || return; done
}
in_pod() { # HOST ROOT USER COMMAND...
    local host=$1 root=$2 user=$3
    shift 3
    "$vhosts" exec "$host" chroot "$root" setpriv --reuid "$user" --regid "$user" --groups "$user" \
        --bounding-set=-all --inh-caps=-all --no-new-privs \
        env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME="$home" "$@"
}
for host in v1 v2 v3; do
    pod $host "$training" /job=job /etc/plenum/key=key /home/trainer/.ssh=ssh /etc/mpi=mpi || exit 99
done
pod v4 "$service" /etc/plenum/key=loaders-key /data/train=data || exit 99
home=/home/trainer in_pod v2 "$training" 1000 "${worker[@]}" >sshd.v2 2>&1 &
home=/home/trainer in_pod v3 "$training" 1000 "${worker[@]}" >sshd.v3 2>&1 &
home=/ in_pod v4 "$service" 10001 PLENUM_CACHE_DIR=/var/cache/plenum "${loader[@]}" >loaders 2>&1 &
listens() { "$vhosts" head bash -c ": </dev/tcp/$VHOSTS_NET.$1/$2"; }
for each in '2 2222' '3 2222' '4 9715'; do wait_for listens $each; done
home=/home/trainer in_pod v1 "$training" 1000 K_MPI_JOB_ROLE=launcher OMPI_MCA_orte_keep_fqdn_hostnames=true \
    OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile \
    OMPI_MCA_plm_rsh_args='-o ConnectionAttempts=10' OMPI_MCA_orte_set_default_slots=4 OMPI_ALLOW_RUN_AS_ROOT=1 \
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    PLENUM_LOADER_KEY=/etc/plenum/key/client timeout -k 5 300 "${launcher[@]}" >out 2>err
{ cat out err; tail -n 5 sshd.v2 loaders; } >said
[ "$(sort out)" = "$(for ((i = 0; i < 8; i++)); do echo "$i 10"; done)" ]
result $? "an MPIJob runs on its workers, fed by a loader of the service" said
finish
