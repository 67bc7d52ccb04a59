# SPDX-License-Identifier: MIT
"""A loader host (--loader-host) that prints without end: the job keeps running, and plenumrun still obeys signals. A
script that answers like such a host replaces ssh."""

import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ["top_builddir"]
sys.path.insert(0, os.path.join(os.environ["top_srcdir"], "tests", "python"))

import tap  # noqa: E402

RUN = os.path.join(BUILD, "plenumrun")
LIMIT = 300
BEAT = 19  # launcher/control/control.h
VERSION = subprocess.run([RUN, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()[-1]

# The host answers the probe. It then runs a keeper that floods both of its outputs. When the keeper has received two
# heartbeats despite the flood, it opens a FIFO.
HOST = """#!{python}
import os, subprocess, sys, time
if "--probe" in " ".join(sys.argv):
    print("plenumrun-probe\\nversion {version}\\ntime %d\\ndirectory 0\\nprogram 0\\ntls 0\\n"
          "address eth0 10.1.2.3/16 reached\\nend" % time.time_ns())
    sys.exit()
print("plenumrun-loader tcp:10.9.9.9:4001", flush=True)
floods = [subprocess.Popen(["yes"], stdin=subprocess.DEVNULL, stdout=fd) for fd in (1, 2, 2)]
beats = 0
while sys.stdin.buffer.readline() == b"\\n":  # the empty lines and the greeting
    pass
while True:
    header = sys.stdin.buffer.read(16)
    if len(header) < 16:
        break
    sys.stdin.buffer.read(int.from_bytes(header[:4], "little"))
    beats += header[4] == {beat}
    if beats == 2:
        with open("{folder}/beats", "w"):
            pass
for flood in floods:
    flood.kill()
"""


class Babbler(unittest.TestCase):
    def start(self, stderr):
        folder = tempfile.mkdtemp(prefix="plenum-test-")
        self.addCleanup(shutil.rmtree, folder)
        agent = os.path.join(folder, "agent")
        with open(agent, "w") as f:
            f.write(HOST.format(python=sys.executable, version=VERSION, beat=BEAT, folder=folder))
        os.chmod(agent, stat.S_IRWXU)
        os.mkfifo(os.path.join(folder, "beats"))
        # instances without mpirun: this tests plenumrun's own loop
        programs = os.path.join(folder, "bin")
        os.mkdir(programs)
        for name in ("sh", "cat", "sleep", "yes"):
            os.symlink(shutil.which(name), os.path.join(programs, name))
        p = subprocess.Popen([RUN, "--allow-run-as-root", "--loader-host", "babbler", "-n", "2", "sleep", "600"],
                             env=dict(os.environ, PATH=programs, OMPI_MCA_plm_rsh_agent=agent), stderr=stderr,
                             text=True)
        self.addCleanup(p.kill)
        beats = os.open(os.path.join(folder, "beats"), os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, beats)
        poll = select.poll()
        poll.register(beats, select.POLLIN)  # and POLLHUP, after the host has opened and closed it
        self.assertTrue(poll.poll(LIMIT * 1000), "no heartbeats")
        return p

    def test_shown(self):
        """the host receives its heartbeats, some of its lines are shown, the others counted, and a signal ends the
        job"""
        with tempfile.TemporaryFile("w+") as err:
            p = self.start(err)
            p.send_signal(signal.SIGTERM)
            self.assertEqual(p.wait(LIMIT), 128 + signal.SIGTERM)
            err.seek(0)
            text = err.read()
        self.assertRegex(text, "warning: host babbler: [0-9]+ more lines were left out: it prints more than 100")
        self.assertIn("plenumrun: warning: host babbler: y\n", text)
        self.assertIn("SIGTERM: ending the job", text)

    def test_untaken(self):
        """the job runs in the same way if its standard error is not read"""
        p = self.start(subprocess.PIPE)
        self.addCleanup(p.stderr.close)
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=LIMIT)
        self.assertEqual(p.returncode, 128 + signal.SIGTERM)


if __name__ == "__main__":
    tap.main()
