# SPDX-License-Identifier: Apache-2.0
"""What the tests of the package share."""
import os
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "scenarios/examples"
MINIMAL = str(EXAMPLES / "00-minimal.yaml")
SMALL = {"model": "llama3-8b", "cluster": "dgx-h100 x 1", "parallel": {"tp": 2, "pp": 2}, "batch": {"global": 16, "seq": 2048}}


def command(*arguments, status=0):
    """What the command prints to standard output, as bytes."""
    done = subprocess.run([os.environ["STEPCAST_COMMAND"], *arguments], capture_output=True, check=False)
    if done.returncode != status:
        raise AssertionError(f"{arguments}: status {done.returncode}\n{done.stderr.decode()}")
    return done.stdout


main = unittest.main
