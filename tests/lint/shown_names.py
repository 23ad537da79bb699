#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: shown_names.py STEPCAST [ROOT]

What the pages write `like this` exists: commands, their --options, keys of scenarios, codes of errors, files
and folders of the project.  And all there are of some are shown: commands in README.md's table, keys on some page.
"""
import json
import pathlib
import re
import subprocess
import sys

import lint
import pages
import scenario_keys
import scratch

# Names of other programs and of a reader's files.
FOREIGN = {
    "--benchmark_filter", "--map-by", "--ntasks", "--ntasks-per-node", "--gpus-per-socket", "--gpus-per-task", "--tag-output", "left_out.txt", "loads.csv", "moe_layer.py", "launch.py", "pretrain_bert.py",
    "pretrain_gpt.py", "pretrain_ict.py", "pretrain_prefix_lm.py", "pretrain_retro.py", "pretrain_t5.py", "pretrain_vit.py", "pretrain_vlm.py", "scenario.yaml", "trainer.py",
    *scratch.FILES,
}
# Where options stand that `stepcast --help` does not print: scripts, the measuring program, Megatron's arguments.
SOURCES = ("tools/*", "tools/command/**/*.cc", "calibrate/measure/**/*.cc", "tools/runs/*.cc", "scenarios/frameworks/megatron/import.cc",
           "scenarios/frameworks/imports/*", "tests/data/imports/*")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w.-]*")


def printed(command, *arguments):
    return subprocess.run([command, *arguments], capture_output=True, text=True, check=True).stdout


def helps(command, words=()):
    """{words of a command: its help}, of all commands."""
    text = printed(command, *words, "--help")
    found = {words: text}
    for name in re.findall(r"^  ([a-z-]+) {2,}", text.partition("ommands:\n")[2], re.MULTILINE):
        found.update(helps(command, (*words, name)))
    return found


def mentions(path, root):
    """(place, text) of spans and of commands in blocks."""
    yield from pages.spans(path, root)
    for block in pages.blocks(path, root):
        if not block.language:
            yield from ((block.place, line) for line in pages.commands(block))


def command_faults(span, known):
    """`stepcast WORDS --OPTION`: the command, and its options."""
    words, text = [], known[()]
    for word in span.split()[1:]:
        choices = word.split("|")
        if not all((*words, choice) in known for choice in choices):
            break
        words.append(choices[-1])
        text = "".join(known[(*words[:-1], choice)] for choice in choices)
    if not words and not re.match(r"stepcast($| -|::)", span):
        yield f"no command '{span.split()[1]}'"
    for option in OPTION.findall(span):
        if not re.search(rf"{option}\b", text):
            yield f"'stepcast {' '.join(words)}' has no option {option}"


def option_faults(span, text):
    """--options that stand alone or behind another program; Megatron's are listed with _ for -."""
    for option in OPTION.findall(span):
        if option not in FOREIGN and not re.search(rf"\b{option[2:]}\b", text) and \
                option[2:].replace("-", "_") not in text:
            yield f"no program has an option {option}"


def file_faults(span, root, folders, names):
    """Paths below a folder of the project (NAME is any name), and names of files without a folder."""
    for name in re.findall(r"[\w./*+-]+", span):
        if "/" in name and name.split("/")[0] in folders:
            missing = not any(root.glob(re.sub(r"\b[A-Z]{3,}\b", "*", name).rstrip("/")))
        else:
            missing = re.fullmatch(r"[a-z]\w*\.(h|cc|csv|yaml|py|md|json|txt|cu)", name) and \
                name not in names
        if missing:
            yield f"no file {name}"


def faults_of(path, root, known, schema, text, files):
    folders = {file.parts[0] for file in files if len(file.parts) > 1}
    names = {file.name for file in files} | FOREIGN
    names |= {word for block in pages.blocks(path, root) for word in re.findall(r"[\w.-]+", block.text)}
    for place, span in mentions(path, root):
        found = [*option_faults(span, text), *file_faults(span, root, folders, names)]
        if span.split()[0] == "stepcast":
            found += command_faults(span, known)
        if scenario_keys.is_setting(span, schema) and scenario_keys.missing_key(span, schema):
            found.append(f"{span}: no key '{scenario_keys.missing_key(span, schema)}'")
        yield from (f"{place}: {fault}" for fault in found)


def code_faults(path, root, command):
    """Codes of errors that no help explains."""
    for code in sorted(set(re.findall(r"\bE\d{3}\b", pages.written(path)))):
        if subprocess.run([command, "help", code], capture_output=True, check=False).returncode:
            yield f"{path.relative_to(root)}: no error {code}"


def table_faults(root, known):
    """README.md's table of commands against the help."""
    rows = re.findall(r"^\| `([a-z]+)", (root / "README.md").read_text(), re.MULTILINE)
    commands = {words[0] for words in known if words}
    return [f"README.md: no row of the command '{name}'" for name in sorted(commands - set(rows))]


def key_faults(root, schema):
    """Keys that no page names."""
    words = set(re.findall(r"\w+", "".join(path.read_text() for path in pages.pages(root))))
    return [f"no page names the key {key}" for key in scenario_keys.paths(schema) if key.split(".")[-1] not in words]


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    command, root = pathlib.Path(sys.argv[1]).resolve(), pages.root_of(sys.argv[2:])
    known = helps(command)
    schema = json.loads(printed(command, "schema"))
    text = "".join(known.values()) + "".join(
        path.read_text() for pattern in SOURCES for path in sorted(root.glob(pattern)) if path.is_file())
    files = [path.relative_to(root) for path in lint.files(root)]
    faults = [fault for path in pages.pages(root) for fault in faults_of(path, root, known, schema, text, files)]
    faults += [fault for path in pages.pages(root) for fault in code_faults(path, root, command)]
    faults += table_faults(root, known) + key_faults(root, schema)
    print(*faults, f"{len(faults)} names that nothing has", sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
