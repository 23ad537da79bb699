# SPDX-License-Identifier: Apache-2.0
"""What run, compare, search and the others give back."""
import copy
import errno
import html
import json
import os

from . import _library, _records, _scenario


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

    #: What the command prints with --json.
    json = property(lambda self: self._answer.bytes.decode())

    def __copy__(self):
        return type(self)(self._answer)

    def __deepcopy__(self, memo):
        # The answer of the library does not change; what is read of it anew belongs to the copy alone.
        return type(self)(self._answer)

    def __reduce__(self):
        return type(self), (_library.KeptAnswer(self._answer.bytes, self._answer.render("text")),)

    def __str__(self):
        return self._answer.render("text").decode()

    __repr__ = __str__

    def _repr_html_(self):
        return f"<pre>{html.escape(str(self))}</pre>"

    def _write(self, form, path, force):
        if not force and os.path.isfile(path):
            raise FileExistsError(errno.EEXIST, "it exists already; force=True overwrites it", os.fspath(path))
        data = self._answer.render(form)
        with open(path, "wb") as file:
            file.write(data)


def _html_table(header, rows):
    def line(cells, tag):
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    return f"<table>{line(header, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"


def _rounded(value):
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else value


class Result(Answered):
    """The forecast of one step: the keys of `stepcast run --json` are its attributes (docs/json.md)."""

    __slots__ = ()

    #: Share of the peak, by the convention that r["mfu"]["convention"] names.
    mfu = property(lambda self: self._data["mfu"]["value"])
    #: What the fullest GPU takes from the device, which decides whether the step fits; search's `peak_memory`.
    peak_memory_bytes = property(lambda self: self._data["memory"].get("reserved_bytes"))
    fits = property(lambda self: self._data["memory"]["fits"])

    @property
    def ops(self):
        """Every op of the step with its times.  The step is simulated once more for it."""
        return _records.Table(json.loads(self._answer.render("ops")))

    def to_perfetto(self, path, *, force=False):
        """Writes the timeline, for https://ui.perfetto.dev."""
        self._write("perfetto", path, force)

    def to_html(self, path, *, force=False):
        """Writes the report that `stepcast run --html` writes, but for the command line in it."""
        self._write("html", path, force)

    def _repr_html_(self):
        data = self._data
        interval = data["interval"]
        figures = [
            ("step time", f"{data['step_time_s']:.4g} s"),
            ("80 % interval", f"{interval['low_s']:.4g} s to {interval['high_s']:.4g} s" if interval else "unknown"),
            ("tokens/s/GPU", f"{data['tokens_per_s_per_gpu']:,.0f}"),
            ("MFU", f"{self.mfu:.1%}"),
            ("peak memory", f"{(self.peak_memory_bytes or 0) / 2**30:.1f} of {data['memory']['usable_bytes'] / 2**30:.1f} GiB"
                            + ("" if self.fits else ", does not fit")),
            ("bubble", f"{data['bubble']['fraction']:.1%}"),
        ]
        critical = next((rank for rank in data["account"] if rank["critical"]), None)
        spent = sorted(critical["items"].items(), key=lambda item: -item[1]) if critical else []
        return (f"<b>{html.escape(data['scenario']['name'])}</b>" + _html_table(("", ""), figures)
                + _html_table((critical["name"] if critical else "", "s"), [(name, f"{time:.4g}") for name, time in spent]))


#: What a line of a comparison shows: its column, and where it is in a case.
_COMPARED = (
    ("name", ("name",)), ("step_time_s", ("step_time_s",)), ("span_s", ("span_s",)),
    ("tokens_per_s_per_gpu", ("tokens_per_s_per_gpu",)), ("mfu", ("mfu", "value")), ("bubble", ("bubble", "fraction")),
    ("memory_peak_bytes", ("memory", "peak_bytes")), ("memory_reserved_bytes", ("memory", "reserved_bytes")),
    ("memory_usable_bytes", ("memory", "usable_bytes")), ("fits", ("memory", "fits")),
)


def _at(data, path):
    for key in path:
        data = data.get(key) if data else None
    return data


class Comparison(Answered):
    """Scenarios side by side: the keys of `stepcast compare --json` are its attributes."""

    __slots__ = ()

    @property
    def rows(self):
        """The figures of each case, named as the columns of stores (docs/json.md, top)."""
        return [{name: _at(case, path) for name, path in _COMPARED} for case in self._data["cases"]]

    def to_pandas(self):
        return _records.pandas().DataFrame(self.rows)

    def to_html(self, path, *, force=False):
        """Writes the report that `stepcast compare --html` writes, but for the command line in it."""
        self._write("html", path, force)

    def _repr_html_(self):
        return _html_table((name for name, _ in _COMPARED), ([_rounded(value) for value in row.values()] for row in self.rows))


class Layout(_records.Record):
    """One layout of a search's answer."""

    __slots__ = ("_answer", "_index", "_file")

    def __init__(self, data, answer, index, file):
        super().__init__(data)
        object.__setattr__(self, "_answer", answer)
        object.__setattr__(self, "_index", index)
        object.__setattr__(self, "_file", file)  # of the search: from its folder files are seen

    def __copy__(self):
        return Layout(self._data, self._answer, self._index, self._file)

    def __deepcopy__(self, memo):
        return Layout(copy.deepcopy(self._data, memo), self._answer, self._index, self._file)

    def __reduce__(self):
        return Layout, (self._data, _library.KeptAnswer(None, None), self._index, self._file)

    def megatron_args(self):
        """Megatron-LM's arguments for it."""
        return self._answer.render("megatron_args", index=self._index).decode()

    def yaml(self):
        """Its scenario, as text."""
        return self._answer.render("scenario", index=self._index).decode()

    def scenario(self):
        """Its scenario, for run() and the others."""
        return _scenario.Scenario({"text": self.yaml(), "name": "<layout>", "path": self._file, "set": []})


class Layouts(_records.Records):
    """Several layouts, best first."""

    __slots__ = ()

    def _repr_html_(self):
        names = [name for name, value in (self[0].to_dict().items() if self else ()) if not isinstance(value, (dict, list))]
        return _html_table(names, ([_rounded(layout.to_dict()[name]) for name in names] for layout in self))


class Search(Answered):
    """The best layouts that were found: the keys of `stepcast search --json` are its attributes, but for `best`."""

    __slots__ = ()

    @property
    def layouts(self):
        """All that the answer lists, best first; of several objectives the Pareto front."""
        return Layouts(Layout(data, self._answer, i, self._data["scenario"]["file"]) for i, data in enumerate(self._data["best"]))

    @property
    def best(self):
        """The first of them; None where nothing fits."""
        return self.layouts[0] if self._data["best"] else None

    def top(self, count=10):
        return Layouts(self.layouts[:count])

    def pareto(self):
        """Those than which no other is better in one objective and no worse in all.

        Of a search for one objective, the front of step time and memory among what it lists.
        """
        if len(self._data["objectives"]) > 1:
            return self.layouts
        front, least = [], None
        for layout in sorted(self.layouts, key=lambda one: (one.step_time_s, one.memory_reserved_bytes)):
            if least is None or layout.memory_reserved_bytes < least:
                front.append(layout)
                least = layout.memory_reserved_bytes
        return Layouts(front)

    def to_pandas(self):
        return self.layouts.to_pandas()

    def to_csv(self, path, *, force=False):
        self._write("csv", path, force)

    def to_html(self, path, *, force=False):
        """Writes the report that `stepcast search --html` writes, but for the command line in it."""
        self._write("html", path, force)

    def _repr_html_(self):
        return self.layouts._repr_html_()


#: What the waterfall of a training run calls its parts.
_PARTS = (("useful", "useful_s"), ("slow ranks", "slow_ranks_s"), ("evaluation", "evaluation_s"), ("checkpoint", "checkpoint_s"),
          ("redo", "redo_s"), ("restart", "restart_s"), ("wait", "wait_s"))


class Training(Answered):
    """A whole training run: the keys of `stepcast train --json` are its attributes (docs/training_runs.md)."""

    __slots__ = ()

    #: Share of the wall time in steps that count: effective training time over all of it, as r.ettr.
    goodput = property(lambda self: self._data["ettr"])
    #: Whether every step fits in memory, as r.memory.fits.
    fits = property(lambda self: self._data["memory"]["fits"])

    def to_html(self, path, *, force=False):
        """Writes the report that `stepcast train --html` writes, but for the command line in it."""
        self._write("html", path, force)

    def _repr_html_(self):
        data = self._data
        interval, fall = data["interval"], data["waterfall"]
        figures = [
            ("training", f"{data['days']:.1f} days"),
            ("80 % interval", f"{interval['low_days']:.1f} to {interval['high_days']:.1f} days" if interval else "unknown"),
            *([] if self.fits else [("peak memory", f"{data['memory']['reserved_bytes'] / 2**30:.1f} of "
                                     f"{data['memory']['usable_bytes'] / 2**30:.1f} GiB, does not fit")]),
            ("GPU-hours", f"{data['gpu_hours']:,.0f}"),
            *([("price", f"${data['price_usd']:,.0f}")] if data["price_usd"] is not None else []),
            ("useful", f"{data['ettr']:.1%}"),
            ("interruptions", f"{data['interruptions']:.1f}"),
            ("a checkpoint every", f"{data['checkpoint']['every_s'] / 60:.1f} min"),
        ]
        parts = [(name, f"{fall[key] / 86400:.2f}", f"{fall[key] / fall['wall_s']:.1%}") for name, key in _PARTS if fall[key] > 0]
        return (f"<b>{html.escape(data['name'])}</b>" + _html_table(("", ""), figures) + _html_table(("part", "days", "share"), parts))


class Size(Answered):
    """What a model takes: the keys of `stepcast size --json` are its attributes."""

    __slots__ = ()


class Imported(_records.Record):
    """What an import found: the keys of `stepcast import --json` are its attributes; `scenario` is the YAML."""

    __slots__ = ("_name",)

    def __init__(self, data, name):
        super().__init__(data)
        object.__setattr__(self, "_name", name)

    def __reduce__(self):
        return Imported, (self._data, self._name)

    def load(self):
        return _scenario.from_text(self._data["scenario"], self._name)
