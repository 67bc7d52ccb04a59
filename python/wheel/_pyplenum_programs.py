# SPDX-License-Identifier: MIT
"""The commands plenumd, plenumctl and plenumrun of a Python environment: each executes the program of the same name in
pyplenum/bin.

This module is not part of pyplenum, because that would first import the whole package, and NumPy with it.
"""

import os
import signal
import sys


def _become(name):
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pyplenum", "bin", name)
    # Restore what a shell would have passed: Python ignores these signals, and may have changed the locale variables.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    with open("/proc/self/environ", "rb") as f:
        environment = dict(item.split(b"=", 1) for item in f.read().split(b"\0") if b"=" in item)
    try:
        os.execve(program, [program] + sys.argv[1:], environment)
    except OSError as error:
        sys.exit(f"{name}: {program} cannot be started: {error.strerror}")


def plenumctl():
    _become("plenumctl")


def plenumd():
    _become("plenumd")


def plenumrun():
    _become("plenumrun")
