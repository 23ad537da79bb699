#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: shown_output.py STEPCAST [--update] [ROOT]

What README.md and docs/ show is what the command prints.  A fenced block that begins with
`$ stepcast ARGUMENTS` shows the standard output of that command, run in the project's root;
--update rewrites the blocks that are out of date.  Status 1 if any differs.
"""
import difflib
import pathlib
import re
import shlex
import subprocess
import sys

BLOCK = re.compile(r"^```\w*\n\$ stepcast (.*)\n((?:(?!```).*\n)*)```$", re.MULTILINE)


def main():
    arguments = [a for a in sys.argv[1:] if a != "--update"]
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    command = pathlib.Path(arguments[0]).resolve()
    root = pathlib.Path(arguments[1]) if len(arguments) > 1 else pathlib.Path(__file__).resolve().parents[2]
    differences = 0

    def render(block):
        nonlocal differences
        done = subprocess.run([command, *shlex.split(block[1])], cwd=root, capture_output=True,
                              text=True, check=False)
        if done.returncode:
            differences += 1
            print(f"$ stepcast {block[1]}\nexit status {done.returncode}\n{done.stderr}")
            return block[0]
        printed = "".join(line.rstrip() + "\n" for line in done.stdout.splitlines())
        if printed != block[2]:
            differences += 1
            print(f"$ stepcast {block[1]}", *difflib.unified_diff(
                block[2].split("\n"), printed.split("\n"), "shown", "printed", lineterm=""),
                sep="\n")
        return f"```\n$ stepcast {block[1]}\n{printed}```"

    blocks = 0
    for path in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        text = path.read_text()
        blocks += len(BLOCK.findall(text))
        new = BLOCK.sub(render, text)
        if "--update" in sys.argv and new != text:
            path.write_text(new)
    print(f"{blocks} shown, {differences} not as printed")
    return 1 if differences and "--update" not in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
