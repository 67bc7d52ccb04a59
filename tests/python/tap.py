# SPDX-License-Identifier: MIT
"""Runs a module's unittest cases and prints the results as TAP."""

import importlib
import os
import shutil
import sys
import unittest

NAMES = {"numpy": "NumPy", "torch": "PyTorch", "torchvision": "torchvision", "PIL": "Pillow"}


class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.count = 0

    def _line(self, test, ok, directive=""):
        self.count += 1
        name = test.shortDescription() or test.id().split(".", 1)[-1]
        print(f"{'ok' if ok else 'not ok'} {self.count} - {name}{directive}", flush=True)

    def addSuccess(self, test):
        self._line(test, True)

    def addSkip(self, test, reason):
        self._line(test, True, f" # SKIP {reason}")

    def _explain(self, test, error):
        self._line(test, False)
        for line in self._exc_info_to_string(error, test).splitlines():
            print(f"#   {line}", flush=True)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self._explain(test, error)

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:  # unittest calls neither addSuccess() nor addFailure() for this test
            self._explain(subtest, error)

    def addError(self, test, error):
        super().addError(test, error)
        self._explain(test, error)


def main(module="__main__"):
    result = Result()
    unittest.defaultTestLoader.loadTestsFromModule(sys.modules[module]).run(result)
    print(f"1..{result.count}")


def skip_all(reason):
    print(f"1..0 # SKIP {reason}")
    sys.exit(0)


def require(*modules, programs=()):
    """Skip everything if libplenum cannot be loaded into this Python, or a program or module is missing."""
    if os.environ.get("PLENUM_SANITIZED"):
        skip_all("a sanitized library cannot be loaded into an ordinary Python")
    for program in programs:
        if shutil.which(program) is None:
            skip_all(f"{program} is not installed")
    for module in modules:
        if find(module) is None:
            skip_all(f"{NAMES[module]} is not installed for this Python")


def find(module):
    """Return the module, or None if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None
