# SPDX-License-Identifier: MIT
"""What pyproject.toml cannot say: a wheel of pyplenum is for one platform, and has a library.

Two kinds are made:

- scripts/wheel puts libplenum and the programs into pyplenum/bin of a copy of this folder. Its wheel needs nothing
else.
- "pip install ./python" makes one of the modules alone, for a machine that has libplenum already. Where none is found,
it
  says so now, instead of at the first import. PLENUM_LIBRARY names one that will be there later.
"""

import importlib.util
import os
import sys

from setuptools import Distribution, setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    try:
        from wheel.bdist_wheel import bdist_wheel
    except ImportError:  # who makes an archive of sources has no need of it
        bdist_wheel = None


def find_library():
    """By pyplenum's own search, so that what is found here is found later."""
    here = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location("_lib", os.path.join(here, "pyplenum", "_lib.py"))
    try:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    except ImportError as error:
        sys.exit(f"pyplenum from the sources needs an installed libplenum: {error}")


class OfPlatform(Distribution):
    def has_ext_modules(self):
        return True  # or the wheel's name would say "any"


commands = {}
if bdist_wheel is not None:
    class PlatformWheel(bdist_wheel):
        def finalize_options(self):
            super().finalize_options()
            if not os.environ.get("PLENUM_LIBRARY"):
                find_library()

        def get_tag(self):
            return "py3", "none", super().get_tag()[2]

    commands["bdist_wheel"] = PlatformWheel

setup(distclass=OfPlatform, cmdclass=commands)
