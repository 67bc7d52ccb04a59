# SPDX-License-Identifier: MIT
"""Settings that pyproject.toml cannot express: a wheel of pyplenum is for one platform and needs a library.

There are two kinds of wheels:

- scripts/wheel puts libplenum and the programs into pyplenum/bin of a copy of this folder. Its wheel needs nothing
  else.
- "pip install ./python" builds a wheel of the modules only, for a machine that already has libplenum. If there is none,
  the build fails, rather than the first import. PLENUM_LIBRARY can name one that will be installed later.
"""

import importlib.util
import os
import sys

from setuptools import Distribution, setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools older than 70.1
    try:
        from wheel.bdist_wheel import bdist_wheel
    except ImportError:  # not needed to build a source archive
        bdist_wheel = None


def find_library():
    """Find the library by pyplenum's own search, so that the result is the same later."""
    here = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location("_lib", os.path.join(here, "pyplenum", "_lib.py"))
    try:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    except ImportError as error:
        sys.exit(f"pyplenum from the sources needs an installed libplenum: {error}")


class OfPlatform(Distribution):
    def has_ext_modules(self):
        return True  # otherwise the wheel's name would say "any"


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
