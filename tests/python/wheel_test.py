# SPDX-License-Identifier: Apache-2.0
"""The wheel, installed by pip into a fresh virtual environment, with neither network nor package index."""
import csv
import hashlib
import base64
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import case

EXAMPLE = """
import stepcast as sc
print(sc.__file__)
print(sc.run("%s").json, end="")
loaded = {line.split()[-1] for line in open("/proc/self/maps") if "stepcast" in line and ".so" in line}
print(*sorted(loaded), sep="\\n")
""" % case.MINIMAL


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode:
        raise AssertionError(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


@unittest.skipUnless(shutil.which("patchelf"), "patchelf is not installed")
class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.wheel = cls.make("once")

    @classmethod
    def make(cls, name):
        return pathlib.Path(run(sys.executable, case.ROOT / "python/make_wheel.py", os.environ["STEPCAST_BUILD"], cls.folder / name).strip())

    def test_runs_in_a_fresh_environment(self):
        python = self.folder / "venv/bin/python"
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
        run(sys.executable, "-m", "venv", self.folder / "venv", env=environment)
        run(python, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", self.wheel, env=environment)
        where, _, rest = run(python, "-c", EXAMPLE, env=environment, cwd=self.folder).partition("\n")
        self.assertTrue(where.startswith(str(self.folder / "venv")), where)
        answer = case.command("run", "--json", case.MINIMAL).decode()
        self.assertTrue(rest.startswith(answer))
        # What is not the system's comes from the package's own folder.
        folder = str(pathlib.Path(where).parent)
        loaded = rest[len(answer):].split()
        self.assertGreater(len(loaded), 1)
        self.assertEqual([path for path in loaded if not path.startswith(folder)], [])

    def test_is_named_after_what_it_needs(self):
        self.assertRegex(self.wheel.name, r"^stepcast-\d+\.\d+\.\d+-py3-none-manylinux_2_36_x86_64\.whl$")

    def test_equal_builds_are_equal_bytes(self):
        self.assertEqual(self.make("twice").read_bytes(), self.wheel.read_bytes())

    def test_lists_its_files_with_their_hashes(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            record = [name for name in wheel.namelist() if name.endswith("/RECORD")][0]
            rows = list(csv.reader(io.StringIO(wheel.read(record).decode())))
            self.assertEqual({row[0] for row in rows}, set(wheel.namelist()))
            for name, digest, size in rows:
                if name == record:
                    continue
                data = wheel.read(name)
                self.assertEqual(digest, "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode())
                self.assertEqual(int(size), len(data))

    def test_has_the_licences_of_what_it_brings_along(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            libraries = [name for name in wheel.namelist() if "libstepcast-" in name]
            licences = [name for name in wheel.namelist() if "/licenses/" in name and not name.endswith("/LICENSE")]
            self.assertEqual(len(libraries), len(licences))
            self.assertIn("stepcast/py.typed", wheel.namelist())


if __name__ == "__main__":
    case.main()
