# SPDX-License-Identifier: Apache-2.0
"""Forecasts one training step of a transformer on a GPU cluster.

    import stepcast as sc
    r = sc.run("my.yaml", {"parallel.tp": 4})
    r.step_time_s, r.mfu, r.peak_memory_bytes

docs/python.md shows all of it.
"""
import operator
import os
import re
from collections.abc import Mapping

from . import _answers, _library, _records, _scenario
from ._answers import Answered, Comparison, Imported, Layout, Layouts, Result, Search, Size, Training
from ._library import StepcastError
from ._records import Record, Records, Table
from ._scenario import Scenario, from_text

__all__ = ["Answered", "Comparison", "Imported", "Layout", "Layouts", "Record", "Records", "Result", "Scenario", "Search", "Size",
           "StepcastError", "Table", "Training", "compare", "from_text", "import_", "load", "presets", "run", "search", "size", "train"]
__version__ = _library.version()


def load(scenario, overrides=None, *, root=None):
    """The scenario of a path, a dict or a Scenario, with values set on top; nothing is read before it is needed."""
    return _scenario.scenario_of(scenario, overrides, root)


def run(scenario, overrides=None, *, root=None, ranks=None, what_if=False, jobs=None, progress=None):
    """Forecasts a step.

    ranks="all" simulates each rank by itself, what_if=True says what each cost is worth however long it takes.
    `jobs`: threads, one for each core without it.
    progress(done, total) is called of replicas now and then; True, and nothing else, ends the call.
    """
    request = dict(load(scenario, overrides, root=root).request)
    if ranks is not None:
        request["ranks"] = ranks
    if what_if:
        request["what_if"] = True
    if jobs is not None:
        request["jobs"] = jobs
    return _answers.Result(_library.call_with_progress("run", request, progress))


def _named(scenarios):
    """A list of scenarios by their names; what has the name of one before it gets a number."""
    named = {}
    for one in scenarios:
        name, times = one.name, 1
        while name in named:
            times += 1
            name = f"{one.name} ({times})"
        named[name] = one
    return named


#: Keys that a scenario has at its top, as one or another of them must be there.
_SCENARIO_KEYS = ("model", "cluster", "extends")

#: How names of files end that are scenarios or become some: no preset's name ends so.
_FILE_SUFFIXES = (".yaml", ".yml", ".json", ".toml", ".sh", ".slurm", ".sbatch", ".bash", ".args", ".log", ".out", ".txt")


def _is_named_cases(scenarios):
    """Whether a mapping is one of names and scenarios, and no scenario.

    A case may be called "model": what stands there is a scenario then, which no section of a scenario is, or all that
    stands in the mapping are files, of which no scenario is made that extends none.
    """
    def is_scenario(value):
        return isinstance(value, Scenario) or isinstance(value, Mapping) and any(key in value for key in _SCENARIO_KEYS)

    def is_file(value):
        return isinstance(value, os.PathLike) or isinstance(value, str) and value.endswith(_FILE_SUFFIXES)

    found = [scenarios[key] for key in _SCENARIO_KEYS if key in scenarios]
    if not found or any(map(is_scenario, found)):
        return True
    return "extends" not in scenarios and all(is_file(value) or is_scenario(value) for value in scenarios.values())


def compare(scenarios, overrides=None, *, schedules=None, jobs=None, root=None, progress=None):
    """Puts scenarios side by side, the first as the baseline.

    `scenarios`: a dict of names and scenarios, or a list of scenarios, or one scenario with a section `compare`, or
    with `schedules`, one or a list of those it is to run under.  `jobs`: threads, one for each core without it.
    """
    cases = None
    if isinstance(scenarios, (list, tuple, Mapping)) and not scenarios:
        raise _library.error_in_request(f"{scenarios!r} has no scenario, so there is nothing to compare",
                                        "several scenarios in a list or a dict, or one with schedules")
    if isinstance(scenarios, (list, tuple)):
        scenarios = _named([load(one, root=root) for one in scenarios])
    if isinstance(scenarios, Mapping) and _is_named_cases(scenarios):
        cases = [{**load(one, overrides, root=root).request, "case": name} for name, one in scenarios.items()]
    request = {"cases": cases} if cases else dict(load(scenarios, overrides, root=root).request)
    if schedules is not None:
        request["schedules"] = _listed("schedules", schedules)
    if jobs is not None:
        request["jobs"] = jobs
    return _answers.Comparison(_library.call_with_progress("compare", request, progress))


#: Of a cluster, as the library and the command have it.
_MOST_GPUS = 10_000_000
_DAYS = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?d?", re.ASCII)


def _gpu_number(value, given):
    """A number of GPUs of what was `given`."""
    try:
        number = int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value, re.ASCII) else operator.index(value)
    except TypeError:
        number = 0
    if not 1 <= number <= _MOST_GPUS:
        raise _library.error_in_request(f"gpus={given!r} is no number of GPUs",
                                        'a number, or two as in "64..1024", which is doubled from the first to the second')
    return number


def _gpu_range(gpus, given):
    """The first and the last of 256, "256" and "64..1024"."""
    parts = gpus.split("..", 1) if isinstance(gpus, str) else [gpus]
    first, last = _gpu_number(parts[0], given), _gpu_number(parts[-1], given)
    if last < first:
        raise _library.error_in_request(f"gpus={given!r} ends before it begins", "the smaller number comes first")
    return first, last


def _searched_gpus(gpus):
    if not isinstance(gpus, (tuple, list)):
        first, last = _gpu_range(gpus, gpus)
    elif len(gpus) == 2:
        first, last = _gpu_range(f"{_gpu_number(gpus[0], gpus)}..{_gpu_number(gpus[1], gpus)}", gpus)
    else:
        raise _library.error_in_request(f"gpus={gpus!r} is no range of numbers of GPUs",
                                        'a search takes a number, or the first and the last: (64, 1024) or "64..1024"')
    return {"fewest_gpus": first, "most_gpus": last}


def _trained_gpus(gpus):
    parts = gpus.split(",") if isinstance(gpus, str) else [gpus] if not hasattr(gpus, "__iter__") else gpus
    numbers = []
    for part in parts:
        number, last = _gpu_range(part, gpus)
        while number <= last:
            numbers.append(number)
            number *= 2
    return numbers


def _days(days):
    text = str(days)
    number = float(text.rstrip("d")) if _DAYS.fullmatch(text) else 0
    if not 0 < number < float("inf"):
        raise _library.error_in_request(f"days={days!r} is no number of days above 0", 'for example 60 or "60d"')
    return number


def _listed(name, value):
    """The texts of an option that takes one or a list of them."""
    texts = [value] if isinstance(value, str) or not hasattr(value, "__iter__") else list(value)
    if not all(isinstance(text, str) for text in texts):
        raise _library.error_in_request(f"{name}={value!r} is no text and no list of texts")
    return texts


def search(scenario, overrides=None, *, gpus=None, where=(), objective=None, schedules=None, top=None, next=None, jobs=None,
           budget=None, store=None, root=None, progress=None):
    """Finds the best layouts of a model on a cluster: the options of `stepcast search` (docs/search.md).

    gpus: 256, or from the first to the second, doubled: (64, 1024) or "64..1024"; where, objective, schedules: a text or a list of them; store: a folder that
    keeps what is simulated.  progress(done, total) is called now and then, with a total above 0; True, and nothing
    else that it returns, ends the search with what has been found.
    """
    section = [[name, _library.to_json(_listed(name, value))] for name, value in (("objective", objective), ("schedules", schedules))
               if value is not None and value != [] and value != ()]
    section += [[name, str(value)] for name, value in (("top", top), ("budget", budget)) if value is not None]
    more = {"next": next, "jobs": jobs, "store": store and os.fspath(store), **(_searched_gpus(gpus) if gpus is not None else {})}
    request = {**load(scenario, overrides, root=root).request, "where": _listed("where", where), "search": section,
               **{key: value for key, value in more.items() if value is not None}}
    return _answers.Search(_library.call_with_progress("search", request, progress))


def train(scenario, overrides=None, *, tokens=None, days=None, gpus=None, price=None, replicas=None, seed=None, root=None):
    """Forecasts the whole training run of which the scenario is a step (docs/training_runs.md).

    tokens="15.6T" and price="2.5USD/GPUh" stand for job.tokens and job.price; days=60 or "60d" also finds the fewest
    GPUs for so many, gpus=8192, "1024..8192", doubled, or a list of these says what others take; replicas=10000 also
    draws so many runs, with failures at random.
    """
    loaded = load(scenario, overrides, root=root)
    request = dict((loaded if price is None else loaded.set({"job.price": str(price)})).request)
    more = {"tokens": None if tokens is None else str(tokens), "days": None if days is None else _days(days), "replicas": replicas, "seed": seed,
            "gpus": None if gpus is None else _trained_gpus(gpus)}
    request.update({key: value for key, value in more.items() if value is not None})
    return _answers.Training(_library.call("train", request))


def size(model, overrides=None, *, gpu=None, tokens=None, mfu=None, search=True, root=None):
    """What a model takes: a preset, a scenario or a config.json.  tokens="15T" and mfu="40%" ask for GPU-days."""
    request = {"set": [], "search": search}
    if isinstance(model, (Scenario, Mapping)):
        request.update(load(model, root=root).request)
        request.pop("path", None)
        if "file" in request:
            request["model"] = request.pop("file")
    else:
        request["model"] = os.fspath(model)
        if root is not None:
            request["root"] = os.fspath(root)
    request["set"] = request["set"] + _scenario.pairs(overrides or {})
    for key, value in (("gpu", gpu), ("tokens", tokens), ("mfu", mfu)):
        if value is not None:
            request[key] = str(value)
    return _answers.Size(_library.call("size", request))


def presets(kind=None, *, show=None):
    """What has a name already: all kinds, the entries of one ("gpus"), or one of them whole (show="llama3-8b")."""
    request = {key: value for key, value in (("kind", kind), ("show", show)) if value is not None}
    found = _records.Record(_library.call("presets", request).json())
    return found[kind] if kind is not None and show is None else found


def import_(kind, path, overrides=None, *, model=None, preset=None, gpu=None):
    """A scenario of a file of another tool: `kind` as in `stepcast import KIND FILE`; model: a config.json.

    A folder stands for the config.json in it.
    """
    request = {"kind": kind, "file": os.fspath(path), "set": _scenario.pairs(overrides or {})}
    if not os.path.isdir(path):
        request["text"] = _scenario.text_of(path)
    if model is not None:
        request["model_file"] = os.fspath(model)
        if not os.path.isdir(model):
            request["model_text"] = _scenario.text_of(model)
    for key, value in (("preset", preset), ("gpu", gpu)):
        if value is not None:
            request[key] = value
    return _answers.Imported(_library.call("import", request).json(), os.fspath(path))
