# SPDX-License-Identifier: MIT
"""Runs each command in the docstrings of examples, limited to a few steps or one epoch, if this machine has what the
command needs."""

import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
sys.path[:0] = [os.path.join(SOURCE, "tests", "python"), os.path.join(SOURCE, "tests", "e2e")]

import tap  # noqa: E402

tap.require("numpy", programs=["mpirun"])

import numpy as np  # noqa: E402

import jobs  # noqa: E402
import torchrun  # noqa: E402
from made import png, write_tar  # noqa: E402

LIMIT_S = 300
PROGRAMS = sorted(glob.glob(os.path.join(SOURCE, "examples", "**", "*.py"), recursive=True))
# Modules that an option of a program needs besides the program's own modules.
OPTIONAL = {"--jax": "jax"}
# Options that keep a run short. They are added to commands that do not set them.
SHORT = {"--steps": "25", "--epochs": "1"}
# Submodules that only newer versions of these modules have.
PARTS = {"torchvision": "torchvision.transforms.v2"}


def docstring(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    found = re.search(r'^"""(.*?)"""', text, re.S | re.M)
    return found.group(1).replace("\\\\\n", "\\\n") if found else ""


def commands(path):
    """Return the commands of a program's docstring: the indented lines that begin with a program or a variable."""
    lines = re.sub(r"\\\n\s*", " ", docstring(path)).split("\n")
    return [re.sub(r"\s+#.*", "", line).strip() for line in lines
            if re.match(r"    ([A-Z_]+=\S+ +)*(python3|plenum\w+|torchrun|accelerate|tensorboard) ", line)]


def shortened(command, program):
    """Return the command, with options that limit the run to a few steps or one epoch."""
    with open(program, encoding="utf-8") as f:
        text = f.read()
    for option, value in SHORT.items():
        if f'add_argument("{option}"' in text and os.path.basename(program) in command and option not in command:
            command += f" {option} {value}"
    return command


def imports(path):
    """Return the modules that a program needs besides Python's own and Plenum's."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    names = set(re.findall(r"^(?:import|from) (\w+)", text, re.M))
    if "torch.utils.tensorboard" in text:
        names.add("tensorboard")
    return sorted(PARTS.get(name, name) for name in names - {"pyplenum"} if name not in sys.stdlib_module_names)


def python_with(modules):
    """Return a Python that has these modules, or None. It is this one, or one that make check-frameworks installed."""
    if all(tap.find(module) for module in modules):
        return sys.executable
    here = os.environ.get("PLENUM_FRAMEWORKS", "")
    for python in sorted(glob.glob(os.path.join(here, "*", "bin", "python3"))) if here else ():
        if subprocess.run([python, "-c", f"import {', '.join(modules)}"], capture_output=True).returncode == 0:
            return python
    return None


class ExamplesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="plenum-test-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        jobs.set_up(cls.folder)
        os.environ.update(OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", JAX_PLATFORMS="cpu", HF_HUB_OFFLINE="1",
                          KERAS_BACKEND="tensorflow", TF_CPP_MIN_LOG_LEVEL="2", HOME=cls.folder)
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "XLA_FLAGS"):
            os.environ.pop(name, None)
        # This data set has make-sample's default number of classes, but fewer and smaller images.
        cls.sample = os.path.join(cls.folder, "sample")
        jobs.make_sample(cls.sample, "--images", "10", "--size", "48")

    def make_pairs(self, where):
        """Write archives of captions and masks, and a list with masks."""
        def image(n):
            return png(((np.arange(40)[:, None] * 5 + np.arange(48) * 3 + n) % 251).astype(np.uint8))

        def mask(n):
            return png(((np.arange(40)[:, None] // 8 + np.arange(48) // 8 + n) % 21).astype(np.uint8))

        os.mkdir(os.path.join(where, "pairs"))
        for k in range(10):
            samples = [(f"{k}-{n}", {"png": image(n), "seg.png": mask(n), "txt": f"picture {n}".encode()})
                       for n in range(8)]
            write_tar(os.path.join(where, f"pairs-{k:03}.tar"), samples)
            write_tar(os.path.join(where, "pairs", f"{k}.tar"),
                      [(name, {"cls": b"0", **{e: d for e, d in parts.items() if e != "txt"}})
                       for name, parts in samples])
        with open(os.path.join(where, "train.csv"), "w") as f:
            f.write("path,label,mask\n")
            for n in range(40):
                for kind, data in (("image", image(n)), ("mask", mask(n))):
                    with open(os.path.join(where, f"{kind}{n}.png"), "wb") as picture:
                        picture.write(data)
                f.write(f"image{n}.png,0,mask{n}.png\n")

    def run_command(self, command, where, python):
        """Run a command as a shell does, but copy a prepared data set instead of running make-sample."""
        words = shlex.split(command)
        if "make-sample" in words:
            shutil.copytree(self.sample, os.path.join(where, words[words.index("make-sample") + 1]))
            return
        if words[:2] == ["torchrun", "--nproc_per_node"]:
            command = shlex.join([python, *torchrun.words(int(words[2]), where)[1:], *words[3:]])
        path = f"{os.path.dirname(python)}:{BUILD}:{os.environ['PATH']}"
        done = subprocess.run(["sh", "-ec", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=LIMIT_S, cwd=where, env={**os.environ, "PATH": path})
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}")

    def lacks(self, command, python):
        """Return what a command needs and this machine lacks, or None."""
        for word in shlex.split(command):
            if word in OPTIONAL and python_with([OPTIONAL[word]]) != python:
                return OPTIONAL[word]
            if word == "torchrun" and python == sys.executable and torchrun.why_not():
                return "a torchrun that starts"
            if word == "accelerate":
                return None if shutil.which(word, path=os.path.dirname(python) + ":" + os.environ["PATH"]) else word
        return "a browser" if command.startswith("tensorboard") else None

    def check(self, program):
        if os.environ.get("PLENUM_SANITIZED"):
            self.skipTest("a sanitized library cannot be loaded into an ordinary Python")
        missing = imports(program)
        python = python_with(missing)
        if not python:
            self.skipTest(f"no Python here has all of {', '.join(missing)}")
        with tempfile.TemporaryDirectory(dir=self.folder) as where:
            for name in {os.path.basename(program), *re.findall(r"\w+\.py", " ".join(commands(program)))}:
                shutil.copy(os.path.join(os.path.dirname(program), name), where)
            self.make_pairs(where)
            last, left_out = "", []
            for command in commands(program):
                command = command.replace("/tmp/", "")
                command = command.replace(" ...", " " + last.split(".py ", 1)[-1]).replace("--evaluate validation",
                                                                                          "--evaluate sample")
                lack = self.lacks(command, python)
                if lack:
                    left_out.append(f"{command} (needs {lack})")
                    continue
                self.run_command(shortened(command, program), where, python)
                last = command
            if left_out:
                print(f"# {os.path.basename(program)}: not run: {'; '.join(left_out)}", flush=True)

    def test_every_program_with_a_docstring_has_commands(self):
        """each example's docstring shows how to start it, with its own name"""
        for program in PROGRAMS:
            if docstring(program):
                self.assertTrue(commands(program), program)
                for command in commands(program):
                    if "make-sample" not in command and not command.startswith("tensorboard"):
                        self.assertIn(f"{os.path.basename(program)} ", command)

    def test_no_number_of_classes_is_fixed(self):
        """examples ask the loader for the number of classes, or have an option for it"""
        for program in PROGRAMS:
            with open(program, encoding="utf-8") as f:
                self.assertNotRegex(f.read(), r"classes=\d", program)


def add_test(program):
    name = os.path.relpath(program, os.path.join(SOURCE, "examples"))

    def test(self):
        self.check(program)
    test.__doc__ = f"the commands of {name} run"
    setattr(ExamplesTest, "test_" + re.sub(r"\W", "_", name), test)


for each in PROGRAMS:
    if docstring(each):
        add_test(each)

if __name__ == "__main__":
    tap.main()
