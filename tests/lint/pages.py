# SPDX-License-Identifier: Apache-2.0
"""The Markdown pages that explain the project, and what stands in them."""
import pathlib
import re
import typing

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GENERATED = re.compile(r"^<!-- [^\n]*: begin -->$.*?^<!-- [^\n]*: end -->$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")


class Block(typing.NamedTuple):
    """A fenced block: the word behind its first fence, the lines between, and where these begin."""
    place: str  # file:line
    language: str
    text: str
    begin: int  # offset of the text in the page


def pages(root):
    return [path for path in [root / "README.md", root / "CONTRIBUTING.md",
                              *sorted((root / "docs").glob("*.md"))] if path.exists()]


def blanked(text):
    """Blanks of the same length: offsets and line numbers stay."""
    return re.sub(r"[^\n]", " ", text)


def written(path):
    """The text of a page; what a program writes between two markers has tests of its own."""
    return GENERATED.sub(lambda part: blanked(part[0]), path.read_text())


def place(path, root, text, offset):
    return f"{path.relative_to(root)}:{text.count(chr(10), 0, offset) + 1}"


def blocks(path, root):
    text = written(path)
    return [Block(place(path, root, text, found.start()), found[1], found[2], found.start(2))
            for found in FENCE.finditer(text)]


def is_session(block):
    """Commands behind `$ `, and what each prints."""
    return not block.language and block.text.startswith("$ ")


def commands(block):
    """What a block without a language runs; a line may go on after a backslash."""
    shown = block.text.replace("\\\n", " ").split("\n")
    if is_session(block):
        return [line[2:] for line in shown if line.startswith("$ ")]
    return [line for line in shown if line.strip()]


def prose(path):
    """What is outside fenced blocks."""
    return FENCE.sub(lambda part: blanked(part[0]), written(path))


def spans(path, root):
    """(place, text) of what stands `like this`."""
    text = prose(path)
    for found in SPAN.finditer(text):
        yield place(path, root, text, found.start()), " ".join(found[1].split())


def anchors(path):
    """What #... of a link to this page may say, as GitHub names its headings."""
    text = FENCE.sub(lambda part: blanked(part[0]), path.read_text())
    seen = {}
    for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        name = re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
        count = seen.get(name, -1) + 1
        seen[name] = count
        yield f"{name}-{count}" if count else name


def root_of(arguments):
    return pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parents[2]).resolve()
