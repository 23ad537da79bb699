# SPDX-License-Identifier: Apache-2.0
"""What run, compare, search and the others give back."""
import html

from . import _library, _records


def _write(path, data):
    with open(path, "wb") as file:
        file.write(data)


class Answered(_records.Record):
    """A Record that is read when it is first asked for something, and has other forms."""

    __slots__ = ("_answer", "_read")

    def __init__(self, answer):
        object.__setattr__(self, "_answer", answer)
        object.__setattr__(self, "_read", None)

    @property
    def _data(self):
        if self._read is None:
            object.__setattr__(self, "_read", self._answer.json())
        return self._read

    #: The bytes that the command prints with --json, as text.
    json = property(lambda self: self._answer.bytes.decode())

    def __reduce__(self):
        return _records.Record, (self._data,)

    def __str__(self):
        return self._answer.render("text").decode()

    __repr__ = __str__


def _html_table(rows):
    cells = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{cells}</table>"


class Result(Answered):
    """The forecast of one step: the keys of `stepcast run --json` are its attributes (docs/json.md)."""

    __slots__ = ()

    #: Share of the peak, by the convention that r["mfu"]["convention"] names.
    mfu = property(lambda self: self._data["mfu"]["value"])
    #: What the fullest GPU takes from the device: what decides whether the step fits.
    peak_memory_bytes = property(lambda self: self._data["memory"].get("reserved_bytes"))
    fits = property(lambda self: self._data["memory"]["fits"])

    def to_perfetto(self, path):
        """Writes the timeline, for https://ui.perfetto.dev."""
        _write(path, self._answer.render("perfetto"))

    def _repr_html_(self):
        return f"<pre>{html.escape(str(self))}</pre>"
