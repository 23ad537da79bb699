# SPDX-License-Identifier: Apache-2.0
"""Answers as Python objects: keys of the JSON are attributes, and columns of data frames."""
from collections.abc import Mapping

#: Keys whose value is a list of objects wherever they are: of an empty list nothing else says so.
LISTS_OF_OBJECTS = frozenset((
    "account", "activation_terms", "assumed", "best", "by_rank", "cases", "critical_path", "decided", "device", "errors", "host", "intervals",
    "left_out", "next", "no_layouts", "parameters", "paths", "phases", "plans", "settings", "smallest_inference", "steps", "twins", "unknown",
    "what_if"))


class Record(Mapping):
    """An object of an answer: `r.memory.usable_bytes` is `r.memory["usable_bytes"]`."""

    __slots__ = ("_data",)

    def __init__(self, data):
        object.__setattr__(self, "_data", data)

    def __getitem__(self, key):
        return wrap(self._data[key], key)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return wrap(self._data[name], name)
        except KeyError:
            raise AttributeError(f"there is no {name!r}: {', '.join(self._data)}") from None

    def __setattr__(self, name, value):
        raise AttributeError("answers do not change")

    def __iter__(self):
        return iter(self._data)

    def __len__(self):
        return len(self._data)

    def __dir__(self):
        return [*super().__dir__(), *self._data]

    def __repr__(self):
        return f"Record({', '.join(f'{key}={value!r}' for key, value in self._data.items())})"

    def __reduce__(self):
        return Record, (self._data,)

    def to_dict(self):
        """Plain dicts and lists.  They are the answer's own: change a copy."""
        return self._data


class Records(tuple):
    """Objects of one kind."""

    __slots__ = ()

    def to_dicts(self):
        return [record.to_dict() for record in self]

    def to_pandas(self):
        """A data frame with a row for each; inner objects are columns like "memory.usable_bytes"."""
        return pandas().json_normalize(self.to_dicts())


def wrap(value, key):
    if isinstance(value, dict):
        return Record(value)
    if isinstance(value, list) and (isinstance(value[0], dict) if value else key in LISTS_OF_OBJECTS):
        return Records(map(Record, value))
    return value


class Table:
    """Columns of equal length."""

    __slots__ = ("columns",)

    def __init__(self, columns):
        self.columns = columns

    def __len__(self):
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name):
        return self.columns[name]

    def __iter__(self):
        """Its rows, as dicts."""
        return (dict(zip(self.columns, row)) for row in zip(*self.columns.values()))

    def __repr__(self):
        return f"Table({len(self)} rows of {', '.join(self.columns)})"

    def to_pandas(self):
        return pandas().DataFrame(self.columns)


def pandas():
    try:
        import pandas as found
    except ImportError:
        raise ImportError("data frames need pandas, which is not installed; to_dicts() and iteration do without") from None
    return found
