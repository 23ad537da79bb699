#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: json_keys.py STEPCAST [ROOT]

Every key that commands with a section on docs/json.md write with --json stands there, below the command's heading.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

SMALL = ["-s", "batch.global=16", "-s", "model.num_hidden_layers=4"]
COMMANDS = {
    "run": [
        SMALL,
        [*SMALL, "-s", "perturb=[{where: all, compute: {lognormal: {sigma: 0.05}}}]", "-s", "replicas=2"],
        [*SMALL, "-s", "contention={links: on}"],
        [*SMALL, "--energy"],
        [*SMALL, "-s", "schedule={kind: auto, params: {effort: 20}}"],
    ],
    "compare": [[*SMALL, "--schedules", "1f1b,no-such-schedule", "-s", "job={tokens: 1T, price: 2USD/GPUh}"]],
    "train": [[*SMALL, "--tokens", "1T", "--gpus", "8", "--replicas", "10", "-s", "job.power.pue=1.1"]],
    "size": [["--tokens", "1T", "--mfu", "40%"]],
    "search": [[*SMALL, "-s", "job={tokens: 1T, price: 2USD/GPUh}", "--top", "2"]],
    "sweep": [[*SMALL, "--axis", "parallel.tp=2,3"]],
    "validate": [SMALL, ["-s", "parallel.tp=3"]],
    "explain": [[*SMALL, "--memory", "--bubble", "--stages", "--critical-path", "--costs", "--in-situ", "--links", "--price", price] for price in
                ("gemm 8192x14336x4096 bf16 tn", "all_gather tp 67108864 B")],
    "topology show": [[]],
    "schedule eval": [[]],
    "calibrate plan": [[]],
}
# Those that read no scenario.
WITHOUT_SCENARIO = {"calibrate show": [["h100-sxm"], ["a100-sxm-80g"]]}
# Below these places a command has the keys of `run`, too.
OF_RUN = {"compare": ("cases[].",), "validate": ("files[].",), "explain": ("",)}
# What has a key for each item of a fixed list, which are words anywhere on the page.
LISTS = ("account[].items", "account[].items_ps", "bubble.by_cause", "bubble.by_cause_ps", "memory.by_rank[].by_category", "links.fullest[].bytes_by_axis")


def paths(value, path=""):
    """The place of each key: "account[].items.matmul"."""
    if isinstance(value, dict):
        for key, below in value.items():
            inner = f"{path}.{key}" if path else key
            yield inner
            yield from paths(below, inner)
    elif isinstance(value, list):
        for below in value:
            yield from paths(below, path + "[]")


def shown_keys(section):
    """The keys in the first cells of a section's tables; the second one of a cell has the place of the first."""
    keys = set()
    for cell in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE):
        place = ""
        for name in re.findall("`(.*?)`", cell):
            if name == "_ps":
                keys |= {re.sub("_s$", "_ps", key) for key in keys}
                continue
            keys.add(name if "." in name else place + name)
            if "." in name:
                place = name.rpartition(".")[0] + "."
    return keys


def is_shown(path, keys, words):
    place, _, name = path.rpartition(".")
    if place in LISTS:
        return name in words
    path = re.sub(r"(?<=^rules_of_thumb\.)\w+(?=\.)", "RULE", path)
    return any(key == path or key == path + "[]" or key.startswith((path + ".", path + "[].")) for key in keys)


def faults(command, root):
    page = (root / "docs/json.md").read_text()
    words = set(re.findall("`(.*?)`", page))
    sections = dict(re.findall(r"^## ([\w ]+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    keys = {name: shown_keys(section) for name, section in sections.items()}
    example = str(root / "scenarios/examples/00-minimal.yaml")
    runs = [(name, [example, *arguments]) for name, all_arguments in COMMANDS.items() for arguments in all_arguments]
    runs += [(name, arguments) for name, all_arguments in WITHOUT_SCENARIO.items() for arguments in all_arguments]
    for name, arguments in runs:
        # The exit status is 2 where a case is left out.
        done = subprocess.run([command, *name.split(), "--json", *arguments], capture_output=True, text=True, check=False)
        for path in sorted(set(paths(json.loads(done.stdout)))):
            of_run = any(path.startswith(place) and is_shown(path[len(place):], keys["run"], words) for place in OF_RUN.get(name, ()))
            if not is_shown(path, keys[name], words) and not of_run:
                yield f"docs/json.md: no '{path}' of `stepcast {name} --json`"
    with tempfile.TemporaryDirectory() as store:
        subprocess.run([command, "sweep", example, *SMALL, "--axis", "parallel.tp=2", "--store", store],
                       capture_output=True, check=True)
        done = subprocess.run([command, "top", "--json", store], capture_output=True, text=True, check=True)
        for path in sorted(set(paths(json.loads(done.stdout)))):
            if not is_shown(path, keys["top"], words):
                yield f"docs/json.md: no '{path}' of `stepcast top --json`"


def main(command, root=None):
    root = pathlib.Path(root) if root else pathlib.Path(__file__).resolve().parents[2]
    found = sorted(set(faults(command, root)))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
