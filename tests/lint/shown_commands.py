#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: shown_commands.py STEPCAST [ROOT]

Commands that the pages show without their output run, in a scratch folder, and end with status 0: lines
of fenced blocks, and `stepcast ...` in the text where nothing is left open (FILE is a scenario; lists of
alternatives and [options] are not run, but shown_names.py looks up their words).  `-R PATTERN` is of a test
that ctest has, `--gtest_filter` of a case of the sources.  Blocks of YAML are valid, by themselves or laid over
a scenario; blocks of C++ compile.  A block that is none of this is ```text.
"""
import concurrent.futures
import fnmatch
import pathlib
import re
import subprocess
import sys

import pages
import scratch

# What does not run here, and why.
NOT_RUN = {
    "apt-get": "changes the machine",
    "cmake": "builds, as this test's own build did",
    "mpirun": "several GPUs",
    "srun": "several nodes",
    "stepcast calibrate run ": "a GPU",
    "stepcast-measure": "a GPU",
    "stepcast_accuracy": "a test of its own (ctest -R accuracy)",
    "tools/accuracy": "minutes; a test of its own (ctest -R accuracy)",
    "tools/quickstart": "installs and builds, as .ci/run does",
    "tools/test": "installs and builds, as .ci/run does",
}
STANDS_FOR = {"FILE": "my.yaml", "SCENARIO": "my.yaml", "TABLE": "mine.csv", "NAME": "zb-h1"}
OPEN = re.compile(r"\b[A-Z]{2,}\b|[|\[<]|\.\.\.")
INDENTED = re.compile(r"^ {4,}((?:\$ |stepcast|tools/|cmake ).*)$", re.MULTILINE)
LANGUAGES = ("", "cpp", "python", "text", "yaml")  # tests/python/page_test.py runs what is Python
COMPILE = "${CXX:-c++} -std=c++20 -fsyntax-only -I. shown.cc"


def is_run(command):
    return not command.startswith(tuple(NOT_RUN))


def inline_commands(path, root):
    """Commands in the text that have all they need: words that are no option and name no open choice."""
    for place, span in pages.spans(path, root):
        for word, file in STANDS_FOR.items():
            span = re.sub(rf"\b{word}\b(\.\.\.)?", file, span)
        words = span.split()
        if words[0] == "stepcast" and not OPEN.search(span) and not is_form(words):
            yield place, span


def is_form(words):
    """`stepcast calibrate fit` and `stepcast explain --bubble` speak of a command and are none."""
    return words[1:2] not in (["help"], ["presets"], ["schema"]) and \
        all(re.fullmatch(r"[a-z-]+", word) for word in words[1:])


def tests_of_ctest(build):
    """Names of the tests of a build tree, those of `-C full` too; none if it is none."""
    done = subprocess.run(["ctest", "--test-dir", build, "-N", "-C", "full"], capture_output=True, text=True, check=False)
    return re.findall(r"^ +Test +#\d+: (.+)$", done.stdout, re.MULTILINE)


def cases_of_sources(root):
    """Suite.Name of the cases in tests/."""
    for path in root.glob("tests/**/*_test.cc"):
        for suite, name in re.findall(r"^TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", path.read_text(), re.MULTILINE):
            yield f"{suite}.{name}"


def filter_faults(path, root, tests, cases):
    """Patterns that select no test: ctest and GoogleTest then run nothing, and end well."""
    text = pages.written(path)
    for found in re.finditer(r"(?<=\s|`)-R ([^\s`);,]+)|--gtest_filter=([^\s`);,]+)", text):
        place = pages.place(path, root, text, found.start())
        if found[1] and not any(re.search(found[1], test) for test in tests):
            yield f"{place}: ctest has no test {found[1]}"
        if found[2] and not any(fnmatch.filter(cases, one) for one in found[2].strip("'\"").split(":")):
            yield f"{place}: no case {found[2]}"


def check_page(path, root, command):
    checked = 0
    faults = [f"{path.relative_to(root)}: a command outside of a fenced block: {line}"
              for line in INDENTED.findall(pages.prose(path))]

    def expect_success(place, shown, done):
        nonlocal checked
        checked += 1
        if done.returncode:
            faults.append(f"{place}: {shown}\nexit status {done.returncode}\n{done.stderr}")

    with scratch.Scratch(root, command) as folder:
        for block in pages.blocks(path, root):
            if block.language not in LANGUAGES:
                faults.append(f"{block.place}: a block of '{block.language}', which no test reads")
            elif block.language == "yaml":
                name = folder.write(block.text)
                folder.provide(block.text + " base.yaml")
                if not re.search(r"^model:", block.text, re.MULTILINE):
                    name = folder.write(f"# over.yaml\nextends: [base.yaml, {name}]\n")
                expect_success(block.place, block.text, folder.run(f"stepcast validate {name}"))
            elif block.language == "cpp":
                (folder.path / "shown.cc").write_text(block.text)
                expect_success(block.place, "C++", folder.run(COMPILE))
            elif not block.language and not pages.is_session(block):
                for line in filter(is_run, pages.commands(block)):
                    expect_success(block.place, line, folder.run(line))
        for place, span in filter(lambda shown: is_run(shown[1]), inline_commands(path, root)):
            expect_success(place, span, folder.run(span))
    return checked, faults


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    command, root = pathlib.Path(sys.argv[1]).resolve(), pages.root_of(sys.argv[2:])
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda path: check_page(path, root, command), pages.pages(root)))
    faults = [fault for _, found in results for fault in found]
    tests, cases = tests_of_ctest(command.parents[1]), list(cases_of_sources(root))
    if tests:
        faults += [fault for path in pages.pages(root) for fault in filter_faults(path, root, tests, cases)]
    print(*faults, f"{sum(checked for checked, _ in results)} commands and YAML blocks, {len(faults)} faults", sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
