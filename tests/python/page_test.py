#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: page_test.py [--update]

Runs the Python of each page that has any (docs/python.md) from top to bottom, as a notebook does.  A block of text right
after code is what the code shows: what it prints, and its last expression.  --update writes what it shows now.
"""
import ast
import contextlib
import io
import os
import pathlib
import re
import sys
import tempfile
import unittest

import case

PAGES = [path.relative_to(case.ROOT).as_posix() for path in
         (case.ROOT / "README.md", case.ROOT / "python/README.md", *sorted((case.ROOT / "docs").glob("*.md")))
         if "```python\n" in path.read_text()]
CELL = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)


def shown(code, names):
    """What a cell of a notebook shows below it."""
    tree = ast.parse(code, feature_version=(3, 9))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(tree, "cell", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
    text = out.getvalue() + ("" if value is None else repr(value))
    return "".join(line.rstrip() + "\n" for line in text.strip("\n").split("\n")) if text.strip() else ""


def replayed(page):
    """The page with what its code shows now."""
    names = {}

    def replay(match):
        now = shown(match[1], names)
        if match[2] is None:
            return match[0]
        return f"```python\n{match[1]}```\n\n```text\n{now}```\n"

    with tempfile.TemporaryDirectory() as folder:
        before = os.getcwd()
        os.chdir(folder)
        try:
            # What the page writes first is there for what comes after.
            return CELL.sub(replay, page)
        finally:
            os.chdir(before)


class Pages(unittest.TestCase):
    maxDiff = None

    def test_are_all_that_have_code(self):
        self.assertEqual(PAGES, ["python/README.md", "docs/python.md"])

    def test_show_what_their_code_shows(self):
        for name in PAGES:
            page = (case.ROOT / name).read_text()
            self.assertTrue(CELL.search(page), name)
            self.assertEqual(replayed(page), page)


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        for name in PAGES:
            path = pathlib.Path(case.ROOT, name)
            path.write_text(replayed(path.read_text()))
    else:
        case.main()
