#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: lint.py CHECK [ROOT]

Checks of the source text, each a test of its own (see CMakeLists.txt).  Prints file:line: and what
is wrong; exit status 1 if anything is, 77 if the tool that a check needs is not installed.
"""
import pathlib
import re
import shutil
import subprocess
import sys

import pages

SOURCE = {".h", ".cc", ".cu", ".cuh", ".S", ".cmake", ".py", ".sh"}
TEXT = SOURCE | {".md", ".yaml", ".json", ".txt", ".in"}
SKIPPED = 77


def files(root):
    """Every file of the project, in order; build trees and what fuzzers begin with apart."""
    for path in sorted(root.iterdir()):
        if path.is_dir() and path.name not in ("build", ".git", ".cache", "__pycache__", "seeds"):
            for inner in files(path):
                yield inner
        elif path.is_file() and path.name != ".git":  # of a worktree
            yield path


def is_script(path):
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def is_source(path):
    return path.suffix in SOURCE or path.name == "CMakeLists.txt" or is_script(path)


def is_data(name):
    return name.startswith(("tests/data/", "tests/golden/", "calibrate/data/tables/", "calibrate/runs/records/"))


def numbered(root, keep):
    for path in files(root):
        name = path.relative_to(root).as_posix()
        if keep(path) and not is_data(name):
            for number, line in enumerate(path.read_text().split("\n"), 1):
                yield name, number, line


def check_licence(root):
    """Each source names its licence in its first line, a script in its second."""
    for path in files(root):
        if is_source(path):
            lines = path.read_text().split("\n")
            if "SPDX-License-Identifier: Apache-2.0" not in lines[1 if is_script(path) else 0]:
                yield f"{path.relative_to(root)}:1: no SPDX line"


def check_words(root):
    """No path of the machine the code was written on.  (Spelled so as not to find itself.)"""
    forbidden = re.compile(r"(?<![\w.:/])/(" + "work|farm|root" + r")/")
    for path in files(root):
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.split("\n"), 1):
            found = forbidden.search(line)
            if found:
                yield f"{path.relative_to(root)}:{number}: names {found[0]}, a path of one machine"


def check_blanks(root):
    for name, number, line in numbered(root, lambda p: is_source(p) or p.suffix in TEXT):
        if "\t" in line:
            yield f"{name}:{number}: tab"
        if line != line.rstrip():
            yield f"{name}:{number}: blanks at the end of the line"


def check_file_names(root):
    """Names that need no quotes in a shell.  One with blanks is mostly a line that was redirected by mistake."""
    for path in files(root):
        if not re.fullmatch(r"[\w.+@-]+", path.name, re.ASCII):
            yield f"{path.relative_to(root)}:1: the file's name has other characters than letters, digits and . + @ - _"


def check_reflow(root):
    """No comment that a formatter broke in the wrong place: a title cut off its rule, or a word or
    two alone between long lines."""
    for path in files(root):
        mark = {".h": "//", ".cc": "//", ".yaml": "#"}.get(path.suffix)
        if not mark or root / "tests" / "data" in path.parents:
            continue
        comment = re.compile(rf"(\s*{mark} *)(\S.*)")
        lines = path.read_text().split("\n")
        parts = [comment.fullmatch(line) for line in lines]
        for number, (line, here, after) in enumerate(zip(lines, parts[1:], parts[2:]), 2):
            before = parts[number - 2]
            if not before or not here:
                continue
            if re.match(r"-{8,}", before[2]) and re.match(r"[a-z-]", here[2]):
                yield f"{path.relative_to(root)}:{number}: the title belongs on the line of its rule"
            alone = len(here[2]) <= 30 and len(here[2].split()) <= 3 and here[2][-1] not in ".:;,)"
            if (alone and len(line) >= 85 and after and after[1] == here[1]
                    and not re.search(r"   |^[-*]", line.lstrip() + here[2] + after[2])):
                yield f"{path.relative_to(root)}:{number}: '{here[2]}' alone on a line: re-wrap the comment"


def check_own_header(root):
    """A source file includes its own header first: so the header is compiled by itself."""
    for path in files(root):
        if path.suffix != ".cc" or not path.with_suffix(".h").exists():
            continue
        own = path.relative_to(root).with_suffix(".h").as_posix()
        first = re.search(r"^#include (.*)$", path.read_text(), re.MULTILINE)
        if not first or first[1] != f'"{own}"':
            yield f'{path.relative_to(root)}:1: does not include "{own}" first'


def check_links(root):
    """Links of Markdown files that lead into the project lead to something, a #heading included."""
    for path in files(root):
        if path.suffix != ".md":
            continue
        for number, line in enumerate(path.read_text().split("\n"), 1):
            for target in re.findall(r"\]\(([^)\s]+)\)", line):
                where, _, anchor = target.partition("#")
                page = path.parent / where if where else path
                if "://" not in target and not target.startswith("mailto:") and (
                        not page.exists() or anchor and anchor not in pages.anchors(page)):
                    yield f"{path.relative_to(root)}:{number}: link to {target}, which is not there"


# Files of other projects that comments name as sources of what they say.
FOREIGN_SOURCES = {
    "src/enqueue.cc", "src/include/device.h", "src/init.cc", "src/transport/net.cc", "src/transport/nvls.cc", "src/transport/p2p.cc",
    "src/graph/paths.cc", "src/graph/search.cc", "src/graph/topo.h", "src/graph/tuning.cc",  # NVIDIA/nccl
    "src/misc/param.cc", "src/transport/net_socket.cc",  # NVIDIA/nccl
    "csrc/kernels/configs.cuh",  # deepseek-ai/DeepEP
    "src/common.cu", "src/util.cu",  # NVIDIA/nccl-tests
    "transformer_engine/common/gemm/cublaslt_gemm.cu",  # NVIDIA/TransformerEngine
    "aten/src/ATen/native/cuda/layer_norm_kernel.cu",  # pytorch/pytorch
    "scaled_upper_triang_masked_softmax.h",  # NVIDIA/Megatron-LM
}
# What a file may say of itself: it takes its own path apart.
NAMES_ITSELF = {"sim/check.cc"}


def check_named_files(root):
    """Headers and sources that comments name are there: "fabric.h", "cluster/fabric.h" or the whole path."""
    every = [path.relative_to(root).as_posix() for path in files(root)]
    endings = {name[i:] for name in every for i in range(len(name)) if i == 0 or name[i - 1] == "/"}
    for name, number, line in numbered(root, lambda p: p.suffix in (".h", ".cc", ".cu", ".cuh", ".csv")):
        comment = re.search(r"^#(.*)$" if name.endswith(".csv") else r"//(.*)$", line)
        for named in re.findall(r"\w[\w/.-]*\.(?:h|cc|cuh?)\b", comment[1] if comment else ""):
            if named not in endings | FOREIGN_SOURCES:
                yield f"{name}:{number}: names {named}, which is not there"
            elif name not in NAMES_ITSELF and ("/" + name).endswith("/" + named) and \
                    sum(("/" + one).endswith("/" + named) for one in every) == 1:
                yield f"{name}:{number}: names itself"


def check_packages(root):
    """README.md's `apt-get install` lines and tools/dependencies name the same packages."""
    listed = subprocess.run([root / "tools/dependencies", "build", "test"], check=True,
                            capture_output=True, text=True).stdout.split()
    readme = (root / "README.md").read_text().replace("\\\n", " ")
    written = [word for line in re.findall(r"apt-get install ([^#\n]*)", readme)
               for word in line.split() if not word.startswith("-")]
    for package in sorted(set(listed) - set(written)):
        yield f"README.md:1: does not name {package}, which tools/dependencies does"
    for package in sorted(set(written) - set(listed)):
        yield f"README.md:1: names {package}, which tools/dependencies does not"


def run_tool(command, paths):
    found = subprocess.run([*command, *paths], capture_output=True, text=True, check=False)
    if found.returncode:
        yield found.stdout + found.stderr


def check_format(root):
    """.clang-format's text, as version 14 lays it out (others differ in details)."""
    tool = shutil.which("clang-format-14")
    if not tool:
        sys.exit(skip("clang-format-14"))
    paths = [p for p in files(root) if p.suffix in (".h", ".cc")]
    for complaint in run_tool([tool, "--dry-run", "-Werror"], paths):
        yield complaint + "to mend it: clang-format-14 -i FILE"


def check_scripts(root):
    tool = shutil.which("shellcheck")
    if not tool:
        sys.exit(skip("shellcheck"))
    data = root / "tests" / "data"  # what importers are given, as its writers might have left it
    paths = [p for p in files(root) if data not in p.parents
             and (p.suffix == ".sh" or (is_script(p) and b"bash" in p.read_bytes().split(b"\n")[0]))]
    yield from run_tool([tool, "-x", f"--source-path={root}"], paths)


def skip(tool):
    print(f"skipped: {tool} is not installed (tools/dependencies check)")
    return SKIPPED


def main():
    checks = {name[6:]: function for name, function in globals().items()
              if name.startswith("check_")}
    if len(sys.argv) < 2 or sys.argv[1] not in checks:
        print(f"usage: {sys.argv[0]} {'|'.join(checks)} [ROOT]", file=sys.stderr)
        return 2
    default = pathlib.Path(__file__).resolve().parents[2]
    root = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else default
    complaints = list(checks[sys.argv[1]](root))
    print("\n".join(complaints) or "ok")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
