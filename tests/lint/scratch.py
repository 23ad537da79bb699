# SPDX-License-Identifier: Apache-2.0
"""A folder to run in what the pages show: the project's files, and a reader's own."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

# What pages call a reader's own files, and the files that stand for them.  A block of YAML that begins with
# the comment `# NAME.yaml` is that file for what follows on its page.
FILES = {
    "base.yaml": "scenarios/examples/00-minimal.yaml",  # under sections of a scenario that are shown alone
    "my.yaml": "scenarios/examples/00-minimal.yaml",
    "step.yaml": "scenarios/examples/gpt3-175b-64xa100.yaml",  # one with a measured step time
    "mine.csv": "calibrate/data/tables/a100-sxm-80g.csv",
    "rows.csv": "calibrate/data/tables/h100-sxm.csv",
    "two_nodes.csv": "calibrate/data/tables/h100-sxm.csv",
    "config.json": "tests/data/imports/llama3_8b.config.json",
    "train.sh": "tests/data/imports/llama3_70b.args",
    "all_reduce.log": "tests/data/measurements/nccl_tests/h100_1n8_allreduce.txt",
    "all_reduce.json": "tests/data/measurements/nccl_tests/h100_1n8_allreduce.json",
}


class Scratch:
    """Commands run in it as in the project's folder; what they write is gone afterwards."""

    def __init__(self, root, command):
        self.root = root
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        for entry in root.iterdir():
            (self.path / entry.name).symlink_to(entry)
        self.environment = {name: value for name, value in os.environ.items()
                            if name not in ("NO_COLOR", "CLICOLOR_FORCE")}
        self.environment["PATH"] = f"{command.parent}:{self.environment['PATH']}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def write(self, text):
        """Writes a block of YAML under the name that it begins with, else as shown.yaml; returns the name."""
        named = re.match(r"# ([\w-]+\.yaml)\n", text)
        name = named[1] if named else "shown.yaml"
        (self.path / name).write_text(text)
        return name

    def provide(self, text):
        """The reader's files that a text names, except those that it writes."""
        for name in re.findall(r"(?<= -o )[\w.-]+", text):
            (self.path / name).unlink(missing_ok=True)
        for name in set(re.findall(r"(?<! -o )(?<![\w./-])[\w.-]+", text)) & set(FILES):
            if not (self.path / name).exists():
                shutil.copy(self.root / FILES[name], self.path / name)

    def run(self, command):
        """Runs it by bash; the first to fail in a pipe fails (but for what `head` leaves unread)."""
        self.provide(command)
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=self.path, env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode == 128 + signal.SIGPIPE:
            done.returncode = 0
        return done
