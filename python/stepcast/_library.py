# SPDX-License-Identifier: Apache-2.0
"""Calls of libstepcast.so, which lies in this folder: requests and answers of capi/stepcast_c.h."""
import ctypes
import json
import os
import signal
import threading

API_VERSION = 1
STOPPED = 130

_Progress = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class StepcastError(Exception):
    """What is wrong with a scenario, a file or a request, as the command says it.

    Attributes are those of the first problem, None where it has none: code ("E102"), message, file, line, column,
    label, help, note.  `errors` has all of them, with the same names; `status` is what the command would exit with.
    """

    def __init__(self, text, errors, status):
        super().__init__(text)
        self.errors = errors
        self.status = status

    def __reduce__(self):
        return StepcastError, (self.args[0], self.errors, self.status)

    def _first(self, name):
        return self.errors[0].get(name) if self.errors else None

    code = property(lambda self: self._first("code"))
    message = property(lambda self: self._first("message"))
    file = property(lambda self: self._first("file"))
    line = property(lambda self: self._first("line"))
    column = property(lambda self: self._first("column"))
    label = property(lambda self: self._first("label"))
    help = property(lambda self: self._first("help"))
    note = property(lambda self: self._first("note"))


def _load():
    # By its whole path: no search path, no environment variable decides what is loaded.
    library = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libstepcast.so"))
    if library.stepcast_api_version() != API_VERSION:
        raise ImportError(f"libstepcast.so has version {library.stepcast_api_version()} of the interface, not {API_VERSION}")
    for name in ("run", "compare", "search"):
        function = getattr(library, "stepcast_" + name)
        function.argtypes, function.restype = (ctypes.c_char_p, _Progress, ctypes.c_void_p), ctypes.c_void_p
    for name in ("load", "train", "size", "presets", "import"):
        function = getattr(library, "stepcast_" + name)
        function.argtypes, function.restype = (ctypes.c_char_p,), ctypes.c_void_p
    library.stepcast_render.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
    library.stepcast_render.restype = ctypes.c_void_p
    library.stepcast_version.restype = ctypes.c_char_p
    library.stepcast_status.argtypes = (ctypes.c_void_p,)
    library.stepcast_bytes.argtypes = (ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t))
    library.stepcast_bytes.restype = ctypes.c_void_p
    library.stepcast_free.argtypes = (ctypes.c_void_p,)
    library.stepcast_free.restype = None
    return library


_library = _load()


def version():
    return _library.stepcast_version().decode()


def _number(value):
    """A number of another library, as numpy's, as Python's own."""
    for method in ("__index__", "__float__"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise TypeError(f"{type(value).__name__} is nothing that a scenario can hold")


def to_json(value):
    return json.dumps(value, default=_number, allow_nan=False)


class Answer:
    """What a function of the library gave back; frees it when it goes."""

    __slots__ = ("_handle", "bytes")

    def __init__(self, handle):
        self._handle = handle
        length = ctypes.c_size_t()
        start = _library.stepcast_bytes(handle, ctypes.byref(length))
        self.bytes = ctypes.string_at(start, length.value)

    def __del__(self):
        if getattr(self, "_handle", None):
            _library.stepcast_free(self._handle)

    def json(self):
        return json.loads(self.bytes)

    def status(self):
        return _library.stepcast_status(self._handle)

    def render(self, form, **request):
        """The bytes of another form of the answer."""
        return _checked(_library.stepcast_render(self._handle, to_json({"form": form, **request}).encode())).bytes


class KeptAnswer:
    """What goes on of an answer in another process: its JSON and its text, None of what is not kept."""

    __slots__ = ("bytes", "text")

    def __init__(self, data, text):
        self.bytes = data
        self.text = text

    def json(self):
        return json.loads(self.bytes)

    def render(self, form, **request):
        if form == "text" and self.text is not None:
            return self.text
        raise error_in_request(f"{form!r} of an answer that was pickled is not there: the process that made the answer can give it",
                               "what --json prints went along; ask for other forms before, or forecast again")


def error_in_request(message, note=None):
    """What the package itself refuses, as the library refuses a request."""
    lines = [f"error[E004]: {message}", *([f"   = help: {note}"] if note else []), "1 error. `stepcast help E004` explains it."]
    return StepcastError("\n".join(lines), [{"code": "E004", "message": message, **({"help": note} if note else {})}], 2)


def _error_of(answer):
    errors = json.loads(answer.bytes)["errors"]
    for error in errors:
        error["column"] = error.pop("col", None)
        error.pop("severity", None)
    try:
        text = answer.render("text").decode().strip()
    except StepcastError:  # too little memory for it
        text = errors[0]["message"]
    return StepcastError(text, errors, answer.status())


def _checked(handle):
    answer = Answer(handle)
    if answer.status():
        raise _error_of(answer)
    return answer


def call(name, request):
    return _checked(getattr(_library, "stepcast_" + name)(to_json(request).encode()))


class _NotedInterrupt:
    """Ctrl-C while the library works: noted, and handled as before once the library has come to its end.

    A handler that raises would do so anywhere in the function that the library calls, before its first line too.
    """

    def __enter__(self):
        self.signal, self.before, self.noted = signal.SIGINT, signal.getsignal(signal.SIGINT), []
        # Python handles signals on its main thread alone.
        if callable(self.before) and threading.current_thread() is threading.main_thread():
            signal.signal(self.signal, lambda *arguments: self.noted.append(arguments))
        else:
            self.before = None
        return self

    def __exit__(self, *_):
        if self.before is None:
            return
        signal.signal(self.signal, self.before)
        if self.noted:
            self.before(*self.noted[0])


def call_with_progress(name, request, progress):
    """The same of a function that may take long.

    progress(done, total) is called now and then, once the total is known.  True ends the call, and nothing else that
    it returns does: what writes gives back how much it wrote.  Ctrl-C and whatever it raises end the call too, and are
    raised here.
    """
    raised = []
    with _NotedInterrupt() as interrupt:

        def report(_, done, total):
            try:
                return 1 if interrupt.noted or progress is not None and total > 0 and progress(done, total) is True else 0
            except BaseException as error:
                raised.append(error)
                return 1

        answer = Answer(getattr(_library, "stepcast_" + name)(to_json(request).encode(), _Progress(report), None))
    if raised:
        raise raised[0]
    if answer.status():
        raise _error_of(answer)
    return answer
