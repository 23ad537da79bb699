# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Dict, List, Optional, Tuple, Union

__version__: str

_Path = Union[str, PathLike[str]]
_Subject = Union[_Path, Mapping[str, Any], "Scenario"]
_Overrides = Optional[Mapping[str, Any]]
_Progress = Optional[Callable[[int, int], Any]]

class StepcastError(Exception):
    errors: List[Dict[str, Any]]
    status: int
    @property
    def code(self) -> Optional[str]: ...
    @property
    def message(self) -> Optional[str]: ...
    @property
    def file(self) -> Optional[str]: ...
    @property
    def line(self) -> Optional[int]: ...
    @property
    def column(self) -> Optional[int]: ...
    @property
    def label(self) -> Optional[str]: ...
    @property
    def help(self) -> Optional[str]: ...
    @property
    def note(self) -> Optional[str]: ...

class Record(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def to_dict(self) -> Dict[str, Any]: ...

class Records(Tuple[Record, ...]):
    def to_dicts(self) -> List[Dict[str, Any]]: ...
    def to_pandas(self) -> Any: ...

class Table:
    columns: Dict[str, List[Any]]
    def __len__(self) -> int: ...
    def __getitem__(self, name: str) -> List[Any]: ...
    def __iter__(self) -> Iterator[Dict[str, Any]]: ...
    def to_pandas(self) -> Any: ...

class Scenario:
    def set(self, overrides: _Overrides = ..., **more: Any) -> Scenario: ...
    @property
    def name(self) -> str: ...
    @property
    def hash(self) -> str: ...
    @property
    def warnings(self) -> List[str]: ...
    @property
    def settings(self) -> Records: ...

class Answered(Record):
    @property
    def json(self) -> str: ...

class Result(Answered):
    schema_version: int
    version: str
    scenario: Record
    step_time_s: float
    step_time_ps: int
    span_s: float
    span_ps: int
    synthesis: Optional[Record]
    disturbance: Optional[Record]
    replicas: Optional[Record]
    tokens_per_step: float
    tokens_per_s_per_gpu: float
    model_flops_per_step: float
    hfu: float
    hfu_korthikanti: float
    hfu_own_peaks: float
    bubble: Record
    account: Records
    critical_path: Records
    what_if_of: str
    what_if_left_out: bool
    what_if: Records
    memory: Record
    trust: Record
    calibration: str
    calibration_hash: str
    own_runs_hash: str
    interval: Optional[Record]
    engine: Record
    warnings: List[str]
    @property
    def mfu(self) -> float: ...
    @property
    def peak_memory_bytes(self) -> Optional[int]: ...
    @property
    def fits(self) -> bool: ...
    @property
    def ops(self) -> Table: ...
    def to_perfetto(self, path: _Path, *, force: bool = ...) -> None: ...
    def to_html(self, path: _Path, *, force: bool = ...) -> None: ...

class Comparison(Answered):
    schema_version: int
    version: str
    baseline: str
    cases: Records
    left_out: Records
    @property
    def rows(self) -> List[Dict[str, Any]]: ...
    def to_pandas(self) -> Any: ...
    def to_html(self, path: _Path, *, force: bool = ...) -> None: ...

class Layout(Record):
    def megatron_args(self) -> str: ...
    def yaml(self) -> str: ...
    def scenario(self) -> Scenario: ...

class Layouts(Records):
    def __getitem__(self, index: Any) -> Any: ...

class Search(Answered):
    schema_version: int
    version: str
    scenario: Record
    objectives: List[str]
    schedules: List[str]
    memory_margin: float
    funnel: Record
    within_discernment: int
    steps: Records
    next: Records
    nearest: Optional[Record]
    simple: Optional[Record]
    on_more_nodes: Optional[Record]
    breaking: Optional[Record]
    broken_constraints: List[str]
    legal_gpus: List[int]
    @property
    def layouts(self) -> Layouts: ...
    @property
    def best(self) -> Optional[Layout]: ...
    def top(self, count: int = ...) -> Layouts: ...
    def pareto(self) -> Layouts: ...
    def to_pandas(self) -> Any: ...
    def to_csv(self, path: _Path, *, force: bool = ...) -> None: ...
    def to_html(self, path: _Path, *, force: bool = ...) -> None: ...

class Training(Answered):
    schema_version: int
    name: str
    file: str
    gpu: str
    gpus: int
    nodes: int
    tokens: float
    steps: float
    days: float
    interval: Optional[Record]
    gpu_hours: float
    price_usd: Optional[float]
    ettr: float
    waterfall: Record
    interruptions: float
    mtbf_s: Optional[float]
    recovery_s: float
    checkpoint: Record
    intervals: Records
    spares: Optional[int]
    spares_for_99: Optional[int]
    energy: Optional[Record]
    replicas: Optional[Record]
    by_replicas: bool
    memory: Record
    phases: Records
    plans: Records
    plans_left_out: List[str]
    assumed: Records
    warnings: List[str]
    version: str
    @property
    def goodput(self) -> float: ...
    @property
    def fits(self) -> bool: ...
    def to_html(self, path: _Path, *, force: bool = ...) -> None: ...

class Size(Answered): ...

class Imported(Record):
    scenario: str
    used: int
    without_effect: int
    unknown: Records
    notes: List[str]
    def load(self) -> Scenario: ...

def load(scenario: _Subject, overrides: _Overrides = ..., *, root: Optional[_Path] = ...) -> Scenario: ...
def from_text(text: str, name: str = ...) -> Scenario: ...
def run(scenario: _Subject, overrides: _Overrides = ..., *, root: Optional[_Path] = ..., ranks: Optional[str] = ..., what_if: bool = ...,
        jobs: Optional[int] = ..., progress: _Progress = ...) -> Result: ...
def compare(scenarios: Union[_Subject, Mapping[str, _Subject], Sequence[_Subject]], overrides: _Overrides = ..., *,
            schedules: Union[None, str, Sequence[str]] = ..., jobs: Optional[int] = ..., root: Optional[_Path] = ..., progress: _Progress = ...) -> Comparison: ...
def search(scenario: _Subject, overrides: _Overrides = ..., *, gpus: Union[None, int, str, Sequence[int]] = ...,
           where: Union[str, Sequence[str]] = ..., objective: Union[None, str, Sequence[str]] = ...,
           schedules: Union[None, str, Sequence[str]] = ..., top: Union[None, int, str] = ..., next: Optional[int] = ...,
           jobs: Optional[int] = ..., budget: Optional[str] = ..., store: Optional[_Path] = ..., root: Optional[_Path] = ..., progress: _Progress = ...) -> Search: ...
def train(scenario: _Subject, overrides: _Overrides = ..., *, tokens: Union[None, str, float] = ..., days: Union[None, str, float] = ...,
          gpus: Union[None, int, str, Sequence[Union[int, str]]] = ..., price: Optional[str] = ..., replicas: Optional[int] = ...,
          seed: Optional[int] = ..., root: Optional[_Path] = ...) -> Training: ...
def size(model: _Subject, overrides: _Overrides = ..., *, gpu: Optional[str] = ..., tokens: Union[None, str, float] = ...,
         mfu: Union[None, str, float] = ..., search: bool = ..., root: Optional[_Path] = ...) -> Size: ...
def presets(kind: Optional[str] = ..., *, show: Optional[str] = ...) -> Any: ...
def import_(kind: str, path: _Path, overrides: _Overrides = ..., *, model: Optional[_Path] = ..., preset: Optional[str] = ...,
            gpu: Optional[str] = ...) -> Imported: ...
