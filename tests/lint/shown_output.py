#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: shown_output.py STEPCAST [--update] [ROOT]

What the pages show is what the command prints.  A fenced block that begins with `$ ` shows commands
and the standard output of each; --update rewrites what is out of date.  Status 1 if any differs.
"""
import concurrent.futures
import difflib
import pathlib
import re
import sys

import pages
import scratch

COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def replay(path, root, command):
    """A page's text with what its commands print now, and what differs."""
    text, differences = path.read_text(), []
    pieces, end = [], 0
    with scratch.Scratch(root, command) as place:
        for block in pages.blocks(path, root):
            if block.language == "yaml":
                place.write(block.text)
            if not pages.is_session(block):
                continue

            def render(shown, block=block):
                done = place.run(shown[1])
                printed = "".join(line.rstrip() + "\n" for line in done.stdout.splitlines())
                difference = []
                if done.returncode:
                    difference = [f"exit status {done.returncode}", done.stderr]
                elif printed != shown[2]:
                    difference = difflib.unified_diff(shown[2].split("\n"), printed.split("\n"),
                                                      "shown", "printed", lineterm="")
                if difference:
                    differences.append("\n".join([f"{block.place}: $ {shown[1]}", *difference]))
                return shown[0] if done.returncode else f"$ {shown[1]}\n{printed}"

            pieces += [text[end:block.begin], COMMAND.sub(render, block.text)]
            end = block.begin + len(block.text)
    return "".join([*pieces, text[end:]]), differences


def main():
    arguments = [a for a in sys.argv[1:] if a != "--update"]
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    command = pathlib.Path(arguments[0]).resolve()
    root = pages.root_of(arguments[1:])
    paths = pages.pages(root)
    shown = sum(len(COMMAND.findall(block.text)) for path in paths for block in pages.blocks(path, root)
                if pages.is_session(block))
    differences = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for path, (text, found) in zip(paths, pool.map(lambda p: replay(p, root, command), paths)):
            differences += found
            if "--update" in sys.argv and text != path.read_text():
                path.write_text(text)
    print(*differences, f"{shown} commands shown with output, {len(differences)} not as printed", sep="\n")
    return 1 if differences and "--update" not in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
