# SPDX-License-Identifier: MIT
"""Checks that the package's wheel is complete, and works once installed."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import tap

BUILD = os.environ["top_builddir"]
SOURCE = os.environ["top_srcdir"]
tap.require()
for module in ("numpy", "pip", "setuptools", "wheel"):
    if importlib.util.find_spec(module) is None:
        tap.skip_all(f"{module} is not installed for this Python")


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.T = tempfile.mkdtemp(prefix="plenum-test-")
        # A copy, because building writes next to the sources.
        shutil.copytree(os.path.join(SOURCE, "python"), os.path.join(cls.T, "python"),
                        ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
        subprocess.run(["chmod", "-R", "u+w", cls.T], check=True)
        done = cls.make(cls.T, PLENUM_LIBRARY=os.path.join(BUILD, ".libs", "libplenum.so.1"))
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        cls.name, = [name for name in os.listdir(cls.T) if name.endswith(".whl")]

    @classmethod
    def run_bare(cls, *command, **variables):
        """Run a program with this Python, without any path to libplenum."""
        bare = {name: value for name, value in os.environ.items()
                if name not in ("PLENUM_LIBRARY", "PLENUM_PLENUMD", "LD_LIBRARY_PATH")}
        return subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=cls.T,
                              env={**bare, **variables})

    @classmethod
    def make(cls, where, **variables):
        return cls.run_bare("-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir",
                            where, os.path.join(cls.T, "python"), **variables)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.T)

    def test_content(self):
        """the wheel has every module and the typing marker, and is for the right platform"""
        self.assertRegex(self.name, r"^pyplenum-[\d.]+-py3-none-linux_\w+\.whl$")
        with zipfile.ZipFile(os.path.join(self.T, self.name)) as wheel:
            names = {name for name in wheel.namelist() if name.startswith("pyplenum/")}
        package = os.path.join(SOURCE, "python", "pyplenum")
        want = {f"pyplenum/{name}" for name in os.listdir(package) if name.endswith(".py") or name == "py.typed"}
        self.assertEqual(names, want)
        listed = re.findall(r"%D%/(pyplenum/\S+\.py)", open(os.path.join(SOURCE, "python", "local.mk")).read())
        self.assertEqual(set(listed) | {"pyplenum/py.typed"}, want, "python/local.mk names the same files")

    def test_without_a_library(self):
        """without a library the wheel is not built, and the error explains it"""
        if self.run_bare("-c", "import _lib", PYTHONPATH=os.path.join(SOURCE, "python", "pyplenum")).returncode == 0:
            self.skipTest("libplenum is installed here")
        where = os.path.join(self.T, "none")
        done = self.make(where)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(
            "pyplenum from the sources needs an installed libplenum: libplenum.so.1 cannot be loaded: install",
            done.stdout + done.stderr)
        self.assertFalse(os.path.exists(where) and os.listdir(where))

    def test_import(self):
        """the wheel works when installed, and its version is the package's"""
        site = os.path.join(self.T, "site")
        with zipfile.ZipFile(os.path.join(self.T, self.name)) as wheel:
            wheel.extractall(site)
        program = "import pyplenum; print(pyplenum.__file__); print(pyplenum.job().launcher, pyplenum.__version__)"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=self.T, env={
            **os.environ, "PYTHONPATH": site, "PLENUM_LIBRARY": os.path.join(BUILD, ".libs", "libplenum.so.1")})
        self.assertEqual(done.returncode, 0, done.stderr)
        where, what = done.stdout.splitlines()
        self.assertTrue(where.startswith(site))
        version = re.search(r"AC_INIT\(\[plenum\], \[([^]]*)\]",
                            open(os.path.join(SOURCE, "configure.ac")).read()).group(1)
        self.assertEqual(what, f"none {version}")
        self.assertIn(f"-{version}-", self.name)

    def test_prefix(self):
        """libplenum is found in the prefix of a virtual environment that the linker does not know"""
        venv = os.path.join(self.T, "venv")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", venv], check=True)
        os.symlink(os.path.abspath(os.path.join(BUILD, ".libs", "libplenum.so.1")),
                   os.path.join(venv, "lib", "libplenum.so.1"))
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("PLENUM_LIBRARY", "LD_LIBRARY_PATH")}
        program = "import pyplenum._lib; print(pyplenum._lib.lib._name)"
        done = subprocess.run([os.path.join(venv, "bin", "python3"), "-c", program], capture_output=True, text=True,
                              cwd=self.T, env={**environment, "PYTHONPATH": os.path.join(SOURCE, "python")})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(done.stdout.strip(), (os.path.join(venv, "lib", "libplenum.so.1"), "libplenum.so.1"))

    def test_together(self):
        """library and loader in the package's folder are found there by an unconfigured Python"""
        site, calls = os.path.join(self.T, "together"), os.path.join(self.T, "calls")
        folder = os.path.join(site, "pyplenum", "bin")
        shutil.copytree(os.path.join(SOURCE, "python", "pyplenum"), os.path.join(site, "pyplenum"))
        os.makedirs(folder)
        shutil.copy(os.path.join(BUILD, ".libs", "libplenum.so.1"), folder)
        os.mkdir(os.path.join(self.T, "other"))
        for where, then in ((folder, f'exec {os.path.abspath(BUILD)}/plenumd "$@"'),
                            (os.path.join(self.T, "other"), "exit 1")):
            with open(os.path.join(where, "plenumd"), "w") as f:
                f.write(f'#!/bin/sh\necho "$0" >>{calls}\n{then}\n')
            os.chmod(f.name, 0o755)
        program = ("import pyplenum, pyplenum._lib\nprint(pyplenum._lib.lib._name)\n"
                   "with pyplenum.Stream('generated:8', 'resize(8) center_crop(8)', micro_batch=4, epochs=1) as s:\n   "
                   " print(sum(1 for batch in s))")
        done = self.run_bare("-c", program, PYTHONPATH=site,
                             PATH=os.path.join(self.T, "other") + ":" + os.environ["PATH"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.split(), [os.path.join(folder, "libplenum.so.1"), "2"])
        with open(calls) as f:
            self.assertEqual(set(f.read().split()), {os.path.join(folder, "plenumd")})

    def test_configured(self):
        """configure finds the package folder of a virtual environment used as the prefix"""
        if os.path.exists(os.path.join(SOURCE, "config.status")):
            self.skipTest("after a build in the source folder, no other folder can be configured")
        venv, build = os.path.join(self.T, "prefix"), os.path.join(self.T, "build")
        os.mkdir(build)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        python = os.path.join(venv, "bin", "python3")
        where = subprocess.check_output([python, "-c", "import site; print(site.getsitepackages()[0])"],
                                        text=True).strip()
        self.assertTrue(where.startswith(venv), where)
        before = subprocess.check_output([os.path.join(BUILD, "config.status"), "--config"], text=True)
        done = subprocess.run(["sh", "-c", 'eval "set -- $BEFORE \\"\\$@\\""; exec "$0" "$@"',
                               os.path.abspath(os.path.join(SOURCE, "configure")), f"--prefix={venv}",
                               # distcheck has configured with a relative --srcdir
                               f"PYTHON={python}", f"--srcdir={os.path.abspath(SOURCE)}"],
                              capture_output=True, text=True, cwd=build, env={**os.environ, "BEFORE": before.strip()})
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(build, "config.status")) as f:
            told = re.search(r'^S\["pythondir"\]="(.*)"$', f.read(), re.M).group(1)
        self.assertEqual(told.replace("${prefix}", venv), where)
        self.assertNotIn("PYTHONPATH", done.stdout)

    def test_promised_glibc(self):
        """a build on Debian 12 needs no newer glibc than the documentation promises for the wheel"""
        with open(os.path.join(SOURCE, "scripts", "glibc")) as f:
            promised = f.read().strip()
        for page in ("README.md", os.path.join("docs", "install.md")):
            with open(os.path.join(SOURCE, page), encoding="utf-8") as f:
                self.assertIn(f"glibc {promised} or newer", " ".join(f.read().split()), page)
        with open("/etc/os-release") as f:
            system = f.read()
        if not re.search(r"^ID=debian$", system, re.M) or not re.search(r'^VERSION_ID="?12"?$', system, re.M):
            self.skipTest("the wheel is built on Debian 12")
        if not shutil.which("objdump"):
            self.skipTest("objdump is not there")
        for name in ("plenumd", "plenumctl", "plenumrun", ".libs/libplenum.so.1", ".libs/libplenum-tls.so",
                     ".libs/libplenum-mpi.so"):
            path = os.path.join(BUILD, name)
            if not os.path.exists(path):
                continue
            with open(path, "rb") as f:  # in the build folder a program may be libtool's script
                real = path if f.read(4) == b"\x7fELF" else os.path.join(BUILD, ".libs", os.path.basename(name))
            symbols = subprocess.check_output(["objdump", "-T", real], text=True)
            newer = [line for line in symbols.splitlines()
                     for version in re.findall(r"GLIBC_(\d+)\.(\d+)", line)
                     if tuple(map(int, version)) > tuple(map(int, promised.split(".")))]
            self.assertEqual(newer, [], f"{name} needs a glibc newer than {promised}")


tap.main()
