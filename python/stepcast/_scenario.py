# SPDX-License-Identifier: Apache-2.0
"""Scenarios: a file, a dict or a text, and what is set on top of it."""
import os
import re
from collections.abc import Mapping

from . import _library, _records

#: What a file says without quotes: a number, and maybe a unit.
_QUANTITY = re.compile(r"[+-]?[0-9.][\w.+-]*( ?[\w./%^-]+)?", re.ASCII)


def yaml_of(value):
    """Dicts and lists as JSON, but quantities in them without quotes, as a file has them: {"tokens": 2T}."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_library.to_json(str(key))}: {yaml_of(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(yaml_of, value)) + "]"
    if isinstance(value, str) and _QUANTITY.fullmatch(value):
        return value
    return _library.to_json(value)


def pairs(overrides):
    """What is set, as the library takes it: texts stay as they are, as behind --set."""
    if not isinstance(overrides, Mapping):
        raise TypeError(f'what is set is a dict, such as {{"parallel.tp": 4}}, not {overrides!r}')
    return [[path, value if isinstance(value, str) else yaml_of(value)] for path, value in overrides.items()]


class Scenario:
    """What is trained where and how.  It does not change: set() gives another one."""

    __slots__ = ("_request", "_facts")

    def __init__(self, request):
        self._request = request
        self._facts = None

    def set(self, overrides=None, **more):
        """The same with other values: s.set({"parallel.tp": 4}) or s.set(schedule="zb-h1"); None takes a key away."""
        more_pairs = pairs(overrides or {}) + pairs(more)
        return Scenario({**self._request, "set": [*self._request["set"], *more_pairs]})

    #: What the library is asked with, to be copied before it is changed.
    request = property(lambda self: self._request)

    def _loaded(self):
        if self._facts is None:
            self._facts = _records.Record(_library.call("load", self._request).json())
        return self._facts

    name = property(lambda self: self._loaded().name)
    hash = property(lambda self: self._loaded().hash)
    warnings = property(lambda self: self._loaded().warnings)
    #: Every setting, defaults too: path, value, origin.
    settings = property(lambda self: self._loaded().settings)

    def __repr__(self):
        changes = "".join(f", {path}={value}" for path, value in self._request["set"])
        return f"<Scenario {self._request.get('file') or self._request['name']}{changes}>"


def scenario_of(subject, overrides=None, root=None):
    """A Scenario of a path, a dict or a Scenario."""
    if isinstance(subject, Scenario):
        request = subject.request
    elif isinstance(subject, Mapping):
        request = {"text": yaml_of(subject), "name": "<dict>", "set": []}
    else:
        request = {"file": os.fspath(subject), "set": []}
    if root is not None:
        request = {**request, "root": os.fspath(root)}
    scenario = Scenario(request)
    return scenario.set(overrides) if overrides else scenario


def from_text(text, name="<text>"):
    """A Scenario of YAML that is in memory; messages call it `name`."""
    return Scenario({"text": text, "name": name, "set": []})


def text_of(path):
    """The text of a file; what is no UTF-8 in it stands as U+FFFD."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
