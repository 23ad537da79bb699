# SPDX-License-Identifier: Apache-2.0
"""libstepcast.so behind the package: threads, memory, what it shows and what it loads."""
import ast
import inspect
import os
import pathlib
import re
import subprocess
import sys
import threading
import unittest

import case
import stepcast as sc
from stepcast import _library

PACKAGE = case.ROOT / "python/stepcast"
# Light calls in a loop; a hundred thousand with `tools/test -C full`.
CALLS = int(os.environ.get("STEPCAST_CALLS", "2000"))


def resident_bytes():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


class Library(unittest.TestCase):
    def test_shows_the_functions_of_its_header_alone(self):
        header = (case.ROOT / "capi/stepcast_c.h").read_text()
        declared = set(re.findall(r"^(?:int|void|const char\*|stepcast_answer\*) (stepcast_\w+)\(", header, re.MULTILINE))
        library = pathlib.Path(os.environ["STEPCAST_BUILD"], "python/stepcast/libstepcast.so")
        shown = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
        self.assertEqual({line.split()[-1] for line in shown.splitlines()}, declared)

    def test_refuses_requests_that_are_none(self):
        handle = _library._library.stepcast_run
        unknown = _library.to_json({"file": case.MINIMAL, "fil": 1}).encode()
        for request, code in ((b"", "E003"), (b"[]", "E003"), (b"{", "E003"), (b'{"file": 3}', "E004"), (unknown, "E003"),
                              (b'{"text": "", "file": "b"}', "E003"), (b'{"text": "a", "set": [["b"]]}', "E004"),
                              (b'{"text": "a", "set": {}}', "E004"), (b"[" * 100000, "E003"), (b"\xff", "E003")):
            with self.assertRaises(sc.StepcastError) as caught:
                _library._checked(handle(request, _library._Progress(), None))
            self.assertEqual(caught.exception.code, code, request[:50])

    def test_refuses_forms_that_an_answer_has_not(self):
        with self.assertRaises(sc.StepcastError) as caught:
            sc.run(case.SMALL)._answer.render("picture")
        self.assertEqual(caught.exception.code, "E004")

    def test_answers_a_hundred_threads(self):
        expected = [sc.run(case.SMALL, {"batch.global": 8 * (i % 5 + 1)}).json for i in range(5)]
        wrong = []

        def work(i):
            with_error = i % 7 == 0
            try:
                if sc.run(case.SMALL, {"batch.global": 8 * (i % 5 + 1), **({"parallel.tpp": 1} if with_error else {})}).json != expected[i % 5]:
                    wrong.append(i)
            except sc.StepcastError as e:
                if not with_error or e.code != "E102":
                    wrong.append(e)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_lets_other_threads_run(self):
        """Python goes on while a forecast is made: a thread that counts gets further than before the call."""
        counted, done = [0], threading.Event()

        def count():
            while not done.is_set():
                counted[0] += 1

        counter = threading.Thread(target=count)
        counter.start()
        handle = None
        request = _library.to_json({"file": str(case.EXAMPLES / "gpt3-175b-64xa100.yaml"), "set": []}).encode()
        before = counted[0]
        for _ in range(5):
            inside = counted[0]
            handle = _library._library.stepcast_run(request, _library._Progress(), None)
            _library._library.stepcast_free(handle)
            if counted[0] - inside > 1000:
                break
        done.set()
        counter.join()
        self.assertGreater(counted[0] - before, 1000)

    def test_loses_no_memory(self):
        def calls(n):
            for _ in range(n // 2):
                self.assertEqual(len(sc.load(case.SMALL).hash), 16)
                with self.assertRaises(sc.StepcastError):
                    _library.call("load", {"text": "", "name": "empty"})

        calls(CALLS // 4)
        before = resident_bytes()
        calls(CALLS)
        self.assertLess(resident_bytes() - before, 4 << 20)


class Sources(unittest.TestCase):
    def modules(self):
        return sorted([*PACKAGE.glob("*.py"), *PACKAGE.glob("*.pyi")])

    def test_are_python_3_9(self):
        self.assertTrue(self.modules())
        for path in self.modules():
            ast.parse(path.read_text(), str(path), feature_version=(3, 9))

    def test_import_the_standard_library_alone(self):
        for path in self.modules():
            for node in ast.walk(ast.parse(path.read_text())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else \
                    [node.module] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
                for name in names:
                    self.assertIn(name.split(".")[0], {*sys.stdlib_module_names, "pandas"}, path)

    def stub(self):
        """{class or "": {name: parameters, None where it is no function}} of the stubs."""
        names = {"": {}}  # "": functions
        for node in ast.parse((PACKAGE / "__init__.pyi").read_text()).body:
            inner = node.body if isinstance(node, ast.ClassDef) else [node]
            into = names.setdefault(node.name if isinstance(node, ast.ClassDef) else "", {})
            for one in inner:
                if isinstance(one, ast.FunctionDef):
                    is_property = any(getattr(d, "id", "") == "property" for d in one.decorator_list)
                    into[one.name] = None if is_property else [a.arg for a in (*one.args.posonlyargs, *one.args.args, *one.args.kwonlyargs)]
                elif isinstance(one, ast.AnnAssign):
                    into[one.target.id] = None
        return names

    def annotated(self, name, kind):
        """Names that the stub of a class says are of a kind."""
        classes = [node for node in ast.parse((PACKAGE / "__init__.pyi").read_text()).body if isinstance(node, ast.ClassDef)]
        return [one.target.id for node in classes if node.name == name for one in node.body
                if isinstance(one, ast.AnnAssign) and getattr(one.annotation, "id", "") == kind]

    def test_stubs_have_the_functions_as_they_are(self):
        stub = self.stub()
        functions = {name: parameters for name, parameters in stub[""].items() if parameters is not None}
        classes = {name for name in stub if name}
        self.assertEqual(set(functions) | classes, set(sc.__all__))
        self.assertEqual({name for name in classes if not isinstance(getattr(sc, name), type)}, set())
        for name, parameters in functions.items():
            self.assertEqual(list(inspect.signature(getattr(sc, name)).parameters), parameters, name)

    def test_stubs_have_the_keys_of_answers(self):
        stub = self.stub()
        answers = {"Result": sc.run(case.SMALL), "Comparison": sc.compare(case.SMALL, schedules=["1f1b", "zb-h1"]),
                   "Search": sc.search(case.MINIMAL, {"batch.global": 16, "model.num_hidden_layers": 4}, top=2),
                   "Training": sc.train(case.SMALL, tokens="1T")}
        for name, answer in answers.items():
            self.assertIsInstance(answer, getattr(sc, name))
            # Keys of the JSON are attributes, and nothing else is but what the class itself has.
            self.assertEqual(set(answer) - set(stub[name]), set(), name)
            self.assertEqual({one for one in stub[name] if one not in answer and not hasattr(type(answer), one)}, set(), name)
            # What the stub calls a list of objects is one where it is empty, too.
            for key in self.annotated(name, "Records"):
                self.assertIsInstance(answer[key], sc.Records, (name, key))
        for name in filter(None, stub):
            methods = {one for one, parameters in stub[name].items() if parameters is not None}
            self.assertEqual({one for one in methods if not hasattr(getattr(sc, name), one)}, set(), name)

    def test_pandas_is_not_imported_before_it_is_needed(self):
        found = subprocess.run([sys.executable, "-c", "import sys, stepcast; print('pandas' in sys.modules)"],
                               capture_output=True, text=True, check=True).stdout
        self.assertEqual(found, "False\n")


if __name__ == "__main__":
    case.main()
