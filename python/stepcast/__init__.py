# SPDX-License-Identifier: Apache-2.0
"""Forecasts one training step of a transformer on a GPU cluster.

    import stepcast as sc
    r = sc.run("my.yaml", {"parallel.tp": 4})
    r.step_time_s, r.mfu, r.peak_memory_bytes
"""
from . import _answers, _library, _scenario
from ._library import StepcastError
from ._scenario import Scenario, from_text

__all__ = ["Scenario", "StepcastError", "from_text", "load", "run"]
__version__ = _library.version()


def load(scenario, overrides=None, *, root=None):
    """The scenario of a path, a dict or a Scenario, with values set on top; nothing is read before it is needed."""
    return _scenario.scenario_of(scenario, overrides, root)


def run(scenario, overrides=None, *, root=None, ranks=None, what_if=False, progress=None):
    """Forecasts a step.  `ranks="all"` simulates each rank by itself; progress(done, total) is called of replicas."""
    request = dict(load(scenario, overrides, root=root)._request)
    if ranks is not None:
        request["ranks"] = ranks
    if what_if:
        request["what_if"] = True
    return _answers.Result(_library.call_with_progress("run", request, progress))
