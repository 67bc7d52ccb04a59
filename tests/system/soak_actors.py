# SPDX-License-Identifier: MIT
"""soak_actors.py - the clients and faults of soak.sh, and its checks of a loader that runs as a service.

    two old clients   stream the whole time, one of them from a second loader that is killed, stopped and frozen
    short clients     with every form of data; each must get the hash that plenumctl computes
    faulty clients    are killed or frozen, request missing data, or belong to a user without permission
    junk              on both sockets: random bytes, halves of frames, silent connections
    the operator      reloads good and bad files, requests the status, scrapes, rotates and vacuums the journal,
                      restarts journald
    the data          changes under the same name

From time to time everything but the old clients pauses. The loader must then use as much private memory, as many
descriptors and as many threads as in the last pause. The same holds for the old clients.
"""

import json
import os
import pwd
import random
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

SECONDS, COUNT, FAILED, CTL, PLENUMD, CONF, T = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:8]
SOCKET, OTHER = "/run/plenum/plenumd.sock", "/run/other.sock"
OTHERS = "the other loader's client"
FEED = "/usr/local/bin/feed"
EVERY = max(10, SECONDS // 40)  # seconds between pauses
FORMS = ["/srv/data", "tar:/srv/forms/ustar-*.tar", "tfrecord:/srv/forms/records-*", "list:/srv/forms/list.txt",
         "/srv/damaged", "generated:100"]
PIPELINES = ["rrc(48)flip(0.5)", "resize(40)center_crop(32)"]
ENVIRONMENT = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": T, "HOME": "/nonexistent"}

done, resting = threading.Event(), threading.Event()
lock = threading.Lock()
counts, wrong, at_work = {}, [], 0
random.seed(1)


def say(text):
    print(f"# {text}", flush=True)


def result(good, sentence, why=""):
    global COUNT, FAILED
    COUNT += 1
    FAILED += not good
    print(f"{'' if good else 'not '}ok {COUNT} - {sentence}", flush=True)
    if not good:
        for line in str(why).splitlines():
            say("  " + line)


def count(what):
    with lock:
        counts[what] = counts.get(what, 0) + 1


def must(good, why):
    if not good:
        with lock:
            wrong.append(why)
        say(f"wrong: {why}")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=ENVIRONMENT)


def systemctl(*words):
    return subprocess.run(["systemctl", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)


def feed(*words, user="member", loader=f"unix:{SOCKET}"):
    ids = pwd.getpwnam(user)
    return subprocess.Popen([FEED, *words, "--loader", loader, "--json"], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
                            user=ids.pw_uid, group=ids.pw_gid, extra_groups=os.getgrouplist(user, ids.pw_gid))


def stream(data, pipeline, epochs):
    return [data, "--pipeline", pipeline, "--seed", "3", "--micro-batch", "4", "--epochs", str(epochs)]


def alone(data, pipeline, epochs):
    out = run(CTL, "hash", data, "--pipeline", pipeline, "--seed", "3", "--micro-batch", "4", "--epochs", str(epochs))
    assert out.returncode == 0, out.stderr
    return out.stdout.strip()


# ---- actors: each is called again and again, except during pauses ----


def short_client():
    data, pipeline = random.choice(list(hashes))
    p = feed(*stream(data, pipeline, 2))
    out, err = p.communicate(timeout=300)
    good = p.returncode == 0 and json.loads(out)["hash"] == hashes[data, pipeline]
    must(good, f"{data} {pipeline}: status {p.returncode}, {out.strip()}, not {hashes[data, pipeline]}; {err.strip()}")
    count("clients with the right hash")
    time.sleep(0.2)


def killed_client():
    p = feed(*stream("/srv/data", PIPELINES[0], 1000))
    time.sleep(random.uniform(0, 1.5))
    p.send_signal(random.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP]))
    time.sleep(0.5)
    p.kill()
    p.communicate()
    count("clients killed or frozen")


def refused_client():
    kind = random.choice(["missing", "outside", "pipeline", "stranger", "moving", "gone"])
    data = {"missing": "/srv/nowhere", "outside": "/etc", "moving": "/srv/moving",
            "gone": "/srv/gone"}.get(kind, "/srv/data")
    p = feed(*stream(data, "rrc(0)" if kind == "pipeline" else PIPELINES[0], 1), "--loader-timeout", "1",
             user="stranger" if kind == "stranger" else "member")
    out, err = p.communicate(timeout=300)
    must(p.returncode == 0 or err.strip() != "" or kind == "moving", f"{kind}: status {p.returncode} without a message")
    must(p.returncode != 0 or kind == "moving", f"{kind}: was served")
    count("clients refused" if kind != "moving" else "clients of data that changes")
    time.sleep(0.3)


def junk():
    kind = random.randrange(4)
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(5)
        s.connect(SOCKET)
        try:
            if kind == 0:
                s.sendall(os.urandom(random.randrange(1, 5000)))
            elif kind == 1:  # a HELLO that is never complete
                s.sendall(struct.pack("<IHHQ", 64, 1, 0, 1) + b"x" * random.randrange(40))
            elif kind == 2:
                s.sendall(struct.pack("<IHHQ", 0xffffffff, 2, 0, 1))
            time.sleep(random.uniform(0, 0.5))
            s.recv(100) if kind == 2 else None
        except OSError:
            pass
    count("junk connections")
    time.sleep(0.2)


def web():
    path = random.choice(["/", "/status.json", "/metrics", "/healthz", "/readyz", "/history.json", "/nowhere",
                          "/thumbnail/0/0"])
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:9714{path}", timeout=20) as answer:
            answer.read()
        must(path != "/nowhere", "a page that does not exist was served")
    except urllib.error.HTTPError as e:
        e.close()
        must(path in ("/nowhere", "/thumbnail/0/0"), f"{path}: {e}")
    if random.random() < 0.3:
        with socket.create_connection(("127.0.0.1", 9714), timeout=5) as s:
            s.sendall(os.urandom(200))
    count("requests by HTTP")
    time.sleep(0.3)


def reload():
    bad = random.random() < 0.3
    with open(CONF, encoding="utf-8") as f:
        good = f.read()
    with open(CONF, "a", encoding="utf-8") as f:
        f.write("ring-limt = 3\n" if bad else f"root = {random.choice(['/srv/other', '/srv/data'])}\n")
    must((systemctl("reload", "plenumd").returncode != 0) == bad, f"reload of a {'bad' if bad else 'good'} file")
    with open(CONF, "w", encoding="utf-8") as f:
        f.write(good)
    must(systemctl("reload", "plenumd").returncode == 0, "reload")
    count("reloads")
    status = run(CTL, "status", f"unix:{SOCKET}", "--json")
    must(status.returncode == 0 and json.loads(status.stdout), f"status: {status.stderr}")
    time.sleep(8)


def journal():
    subprocess.run(["journalctl", "--flush", "--rotate", "--vacuum-size=1M", "--vacuum-files=2"], capture_output=True)
    if random.random() < 0.2:
        systemctl("restart", "systemd-journald")
    count("rotations of the journal")
    time.sleep(15)


def change_data():
    extra = "/srv/moving/" + sorted(d for d in os.listdir("/srv/moving"))[0] + "/extra.jpg"
    if os.path.exists(extra):
        os.unlink(extra)
    else:
        with open("/srv/data/" + extra.split("/")[3] + "/" + sorted(os.listdir("/srv/data/" + extra.split("/")[3]))[0],
                  "rb") as f:
            data = f.read()
        with open(extra, "wb") as f:
            f.write(data)
    count("changes of data")
    time.sleep(5)


def actor(work):
    global at_work
    while not done.is_set():
        if resting.is_set():
            time.sleep(0.1)
            continue
        with lock:
            at_work += 1
        try:
            work()
        except Exception as e:  # without this actor, the run would test less than it claims
            must(False, f"{work.__name__}: {e!r}")
            time.sleep(1)
        finally:
            with lock:
                at_work -= 1


# ---- the second loader, which is disturbed all the time ----


def other_loader():
    while not done.is_set():
        if os.path.exists(OTHER):
            os.unlink(OTHER)
        with open(f"{T}/other.log", "w") as log:
            p = subprocess.Popen([PLENUMD, "--socket", f"unix:{OTHER}", "--socket-mode", "0666", "--root", "/srv",
                                  "--threads", "1"],
                                 stdin=subprocess.DEVNULL, stderr=log, env=ENVIRONMENT)
        done.wait(random.uniform(5, 20))
        how = random.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP])
        p.send_signal(how)
        if how == signal.SIGSTOP:
            done.wait(8)  # longer than clients wait for an answer
            p.kill()
        p.wait()
        count("ends of the second loader")
        done.wait(random.uniform(0, 3))


# ---- measurements ----


def look(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        fields = dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
    return {"anon": int(fields["RssAnon"].split()[0]), "threads": int(fields["Threads"]),
            "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}


def loader_pid():
    return int(systemctl("show", "-P", "MainPID", "plenumd").stdout)


def rest():
    resting.set()
    end = time.monotonic() + 180
    while at_work and time.monotonic() < end:
        time.sleep(0.05)
    must(not at_work, "the clients do not pause")
    end = time.monotonic() + 30  # until the loader has noticed that they left
    while time.monotonic() < end:
        status = run(CTL, "status", f"unix:{SOCKET}", "--json")
        if status.returncode == 0 and len(json.loads(status.stdout)["streams"]) <= 1:
            break
        time.sleep(0.2)
    time.sleep(2)
    seen = {name: look(pid) for name, pid in watched.items() if name not in old or old[name].poll() is None}
    resting.clear()
    return seen


say("hashes, by one thread")
hashes = {(data, pipeline): alone(data, pipeline, 2) for data in FORMS for pipeline in PIPELINES}
batches, pause = 25, 100  # per epoch; ms
epochs = max(2, SECONDS * 1000 // (batches * pause * 11 // 10))
long_hash = alone("/srv/data", PIPELINES[0], epochs)
pid = loader_pid()
actors = [threading.Thread(target=actor, args=(work,), daemon=True)
          for work in (short_client, short_client, killed_client, refused_client, junk, web, reload, journal,
                       change_data)]
second = threading.Thread(target=other_loader, daemon=True)
second.start()
while not os.path.exists(OTHER):
    time.sleep(0.05)
old = {"old client": feed(*stream("/srv/data", PIPELINES[0], epochs), "--pause", str(pause)),
       OTHERS: feed(*stream("/srv/data", PIPELINES[0], epochs), "--pause", str(pause), "--silence", "2000",
                                  loader=f"unix:{OTHER}")}
watched = {"loader": pid, **{name: p.pid for name, p in old.items()}}
# Read their messages, so that a full pipe does not stop them.
heard = {name: [] for name in old}
ears = [threading.Thread(target=lambda name=name, p=p: heard[name].extend(p.stderr), daemon=True)
        for name, p in old.items()]
for a in actors + ears:
    a.start()

series, begin = [], time.monotonic()
while time.monotonic() - begin < SECONDS:
    time.sleep(EVERY)
    seen = rest()
    series.append(seen)
    say(f"{time.monotonic() - begin:5.0f} s: " + "; ".join(
        f"{name}: {s['anon']} KiB, {s['descriptors']} descriptors, {s['threads']} threads" for name, s in seen.items()))

ended = {}
for name, p in old.items():
    p.wait(SECONDS + 600)
    ended[name] = json.loads(p.stdout.read() or "{}")
done.set()
for a in actors + [second]:
    a.join(120)

say(", ".join(f"{what}: {n}" for what, n in sorted(counts.items())))
result(not wrong, "every client had the right hash or the right message, and every reload and page worked",
       "\n".join(wrong[:20]))
for name in old:
    result(ended[name].get("hash") == long_hash, f"{name}: the right hash at the end",
           f"{ended[name]}\n{''.join(heard[name][-10:])}")
say(f"the other loader's client has lost it {ended[OTHERS].get('incidents')} times")
result(ended["old client"].get("incidents") == 0, "the service never lost its client",
       "".join(heard["old client"][-10:]))
result(ended[OTHERS].get("incidents", 0) > 0, "the other loader lost its client")
result(loader_pid() == pid, "the service is the same process as at the beginning")
errors = subprocess.run(["journalctl", "-u", "plenumd", "-p", "err", "-o", "cat", "--no-pager"], capture_output=True,
                        text=True).stdout
unexpected = [line for line in errors.splitlines()
              if "ring-limt" not in line and "settings are unchanged" not in line
              and "Reload failed" not in line]
result(not unexpected, "no errors in the part of the journal that is kept", "\n".join(unexpected[:10]))

if SECONDS < 600:
    say("too short to judge growth")
else:
    settled = series[len(series) // 4:]
    for name in series[0]:
        of = [s[name] for s in settled if name in s]
        third = len(of) // 3
        for what in ("descriptors", "threads"):
            seen = sorted({s[what] for s in of})
            if name == OTHERS:  # this client may have no loader at that moment
                result(max(s[what] for s in of[-third:]) <= max(s[what] for s in of[:third]),
                       f"{name}: no more {what} at the end", f"{seen}")
            else:  # when an old client ends, the loader has fewer
                alike = {frozenset(s): {t[name][what] for t in settled if name in t and set(t) == set(s)}
                         for s in settled if name in s}
                result(all(len(values) == 1 for values in alike.values()), f"{name}: as many {what} at every pause",
                       f"{seen}")
        first, last = (statistics.median(s["anon"] for s in part) for part in (of[:third], of[-third:]))
        say(f"{name}: private memory: {first:.0f} KiB in the first third, {last:.0f} KiB in the last")
        result(last <= first * 1.03 + 512, f"{name}: memory does not grow", f"from {first:.0f} to {last:.0f} KiB")
print(f"1..{COUNT}", flush=True)
