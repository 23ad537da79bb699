# SPDX-License-Identifier: Apache-2.0
"""What the functions of the package answer, beside the command's --json."""
import copy
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import types
import unittest

import case
import stepcast as sc
from stepcast import _records


class Run(unittest.TestCase):
    def test_gives_the_bytes_of_the_command(self):
        for name in ("00-minimal", "gpt3-175b-64xa100"):
            path = str(case.EXAMPLES / f"{name}.yaml")
            self.assertEqual(sc.run(path).json.encode(), case.command("run", "--json", path))

    def test_sets_values_as_the_command_does(self):
        r = sc.run(case.MINIMAL, {"parallel.tp": 4, "schedule": "zb-h1", "optimizer.precision": None})
        self.assertEqual(r.json.encode(), case.command(
            "run", "--json", case.MINIMAL, "-s", "parallel.tp=4", "-s", "schedule=zb-h1", "-s", "optimizer.precision=null"))

    def test_what_is_set_is_a_dict(self):
        with self.assertRaisesRegex(TypeError, 'such as {"parallel.tp": 4}'):
            sc.run(case.MINIMAL, "parallel.tp=4")

    def test_simulates_each_rank_as_the_command_does(self):
        r = sc.run(case.SMALL, ranks="all")
        self.assertEqual(r.disturbance.ranks, 8)

    def test_has_the_keys_as_attributes(self):
        r = sc.run(case.SMALL)
        data = json.loads(r.json)
        self.assertEqual(set(r), set(data))
        self.assertEqual(r.step_time_s, data["step_time_s"])
        self.assertEqual(r.interval.low_s, data["interval"]["low_s"])
        self.assertEqual(r.account[0].items_ps, data["account"][0]["items_ps"])
        self.assertEqual(r.memory.by_rank[1].peak_bytes, data["memory"]["by_rank"][1]["peak_bytes"])
        self.assertEqual(r.trust.to_dict(), data["trust"])
        self.assertEqual(r.mfu, data["mfu"]["value"])
        self.assertEqual(r.peak_memory_bytes, data["memory"]["reserved_bytes"])
        with self.assertRaisesRegex(AttributeError, "there is no 'step_time': .*step_time_s"):
            r.step_time
        with self.assertRaises(AttributeError):
            r.step_time_s = 1

    def test_shows_the_text_of_the_command(self):
        r = sc.run(case.MINIMAL)
        self.assertEqual(repr(r).encode(), case.command("run", case.MINIMAL))

    def test_names_do_not_become_markup(self):
        r = sc.run({**case.SMALL, "name": "<script>alert(1)</script>"})
        self.assertNotIn("<script", r._repr_html_())
        self.assertIn("&lt;script", r._repr_html_())

    def test_goes_to_other_processes(self):
        r = sc.run(case.SMALL)
        self.assertEqual(pickle.loads(pickle.dumps(r)).step_time_ps, r.step_time_ps)


class EmptyLists(unittest.TestCase):
    def test_of_objects_are_of_the_same_kind_as_others(self):
        t = sc.train(case.SMALL, tokens="1T")
        self.assertEqual(t.plans.to_dicts(), [])
        self.assertEqual(sc.compare(case.SMALL, schedules=["1f1b", "zb-h1"]).left_out.to_dicts(), [])
        self.assertEqual(sc.search(case.SMALL, where="tp == 8", top=1).next.to_dicts(), [])
        self.assertEqual(sc.run(case.SMALL).warnings, [])

    def test_are_known_wherever_answers_have_objects(self):
        def keys_of(value, key):
            if isinstance(value, dict):
                return set().union(*(keys_of(inner, name) for name, inner in value.items()))
            inner = value if isinstance(value, list) else []
            return set().union(*(keys_of(one, key) for one in inner), {key} if inner and isinstance(inner[0], dict) else ())

        for answer in (sc.run(case.SMALL, ranks="all"), sc.compare(case.SMALL, schedules=["1f1b", "no-such"]), sc.size("llama3-8b"),
                       sc.train(case.SMALL, {"job.rampup": "[{tokens: 100B, batch: 8}]"}, tokens="1T", gpus=[8], replicas=2),
                       sc.search(case.SMALL, top=1, next=2)):
            self.assertEqual(keys_of(answer.to_dict(), "") - _records.LISTS_OF_OBJECTS, set())


class Copies(unittest.TestCase):
    """Attributes mean in copies what they mean in the answer."""

    @classmethod
    def setUpClass(cls):
        cls.answers = (sc.run(case.SMALL), sc.compare(case.SMALL, schedules=["1f1b", "zb-h1"]), sc.train(case.SMALL, tokens="1T"),
                       sc.search(case.MINIMAL, Search.SETS, top=3), sc.size("llama3-8b"))

    def copies_of(self, answer):
        return pickle.loads(pickle.dumps(answer)), copy.copy(answer), copy.deepcopy(answer), pickle.loads(pickle.dumps(copy.deepcopy(answer))), \
            pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(answer))))

    def test_are_of_the_same_class_with_the_same_figures(self):
        for answer in self.answers:
            for other in self.copies_of(answer):
                self.assertIs(type(other), type(answer))
                self.assertEqual((other, other.json, str(other), other._repr_html_()), (answer, answer.json, str(answer), answer._repr_html_()))
        for r in self.copies_of(self.answers[0]):
            self.assertEqual((r.mfu, r.fits, r.peak_memory_bytes), (self.answers[0].mfu, True, self.answers[0].peak_memory_bytes))

    def test_of_searches_have_layouts(self):
        q = self.answers[3]
        for other in self.copies_of(q):
            self.assertEqual(other.best.step_time_ps, q.best.step_time_ps)
            self.assertEqual((other.layouts, other.pareto(), other.top(2)), (q.layouts, q.pareto(), q.top(2)))
        for layouts in self.copies_of(q.layouts):
            self.assertIs(type(layouts), sc.Layouts)
            self.assertEqual({type(one) for one in layouts}, {sc.Layout})
            self.assertEqual(layouts, q.layouts)

    def test_in_this_process_have_the_other_forms_too(self):
        r, q = self.answers[0], self.answers[3]
        for make in (copy.copy, copy.deepcopy):
            self.assertEqual(len(make(r).ops), len(r.ops))
            self.assertEqual(make(q).best.megatron_args(), q.best.megatron_args())
            self.assertEqual(make(q.best).yaml(), q.best.yaml())
            self.assertEqual(make(q.layouts)[1].yaml(), q.layouts[1].yaml())

    def test_from_elsewhere_say_what_they_have_not(self):
        r, c, t, q, _ = (pickle.loads(pickle.dumps(answer)) for answer in self.answers)
        best = pickle.loads(pickle.dumps(self.answers[3].best))
        with tempfile.TemporaryDirectory() as folder:
            for ask in (lambda: r.ops, *(lambda one=one: one.to_html(folder + "/a.html") for one in (r, c, t, q)), lambda: q.to_csv(folder + "/a.csv"),
                        q.best.megatron_args, best.megatron_args, best.yaml, best.scenario):
                with self.assertRaisesRegex(sc.StepcastError, "of an answer that was pickled is not there"):
                    ask()
            self.assertEqual(os.listdir(folder), [])

    def test_do_not_share_what_can_be_changed(self):
        for one in (sc.run(case.SMALL), self.answers[3].best):
            copy.deepcopy(one).to_dict()["step_time_s"] = 0
            self.assertGreater(one.step_time_s, 0)

    def test_go_to_other_processes(self):
        script = "import pickle, sys\nr, q, best, s = pickle.load(sys.stdin.buffer)\nprint(r.mfu, q.best.step_time_s, best.step_time_s, s.name)\n"
        r, q, s = self.answers[0], self.answers[3], sc.load(case.SMALL)
        done = subprocess.run([sys.executable, "-c", script], input=pickle.dumps((r, q, q.best, s)), capture_output=True, check=True)
        self.assertEqual(done.stdout.decode(), f"{r.mfu} {q.best.step_time_s} {q.best.step_time_s} {s.name}\n")


class Load(unittest.TestCase):
    def test_says_every_setting_and_why(self):
        s = sc.load(case.SMALL, {"batch.micro": 2})
        self.assertIn({"path": "batch.micro", "value": "2", "origin": "--set"}, s.settings.to_dicts())
        self.assertEqual(s.hash, sc.run(s).scenario.hash)

    def test_a_scenario_does_not_change(self):
        s = sc.load(case.SMALL)
        other = s.set(schedule="zb-h1")
        self.assertEqual(sc.run(s).scenario.schedule, "1F1B")
        self.assertEqual(sc.run(other).scenario.schedule, "ZB-H1")


class Dicts(unittest.TestCase):
    def test_quantities_in_texts_are_read_as_behind_set(self):
        job = {"tokens": "2T", "price": "2.5USD/GPUh", "failures": {"mtbf": "3.1h"}, "checkpoint": {"every": "500 steps"}}
        by_path = {"job.tokens": "2T", "job.price": "2.5USD/GPUh", "job.failures.mtbf": "3.1h", "job.checkpoint.every": "500 steps"}
        expected = sc.train(case.SMALL, by_path)
        self.assertEqual(sc.train({**case.SMALL, "job": job}).days, expected.days)
        self.assertEqual(sc.train(case.SMALL, {"job": job}).price_usd, expected.price_usd)

    def test_other_texts_stay_texts(self):
        for name in ("2 x 4", "70b, true: #1", "2026", "true", "3.5: b", "1f1b #2", "0x10"):
            self.assertEqual(sc.load({**case.SMALL, "name": name}).name, name)

    def test_what_a_search_of_one_prints_reads_a_pipe(self):
        self.assertIn("stepcast run - -s", str(sc.search(case.SMALL, {"model.num_hidden_layers": 4}, top=1)))


class Train(unittest.TestCase):
    JOB = {"job.price": "2USD/GPUh", "job.checkpoint": "{every: 2h}"}
    SETS = ("-s", "job.price=2USD/GPUh", "-s", "job.checkpoint={every: 2h}")

    def test_gives_the_bytes_of_the_command(self):
        t = sc.train(case.MINIMAL, self.JOB, tokens="1T", gpus=[8, 32], replicas=50, seed=3)
        self.assertEqual(t.json.encode(), case.command(
            "train", "--json", case.MINIMAL, *self.SETS, "--tokens", "1T", "--gpus", "8,32", "--replicas", "50", "--seed", "3"))
        self.assertEqual(repr(sc.train(case.MINIMAL, self.JOB, tokens="1T")).encode(),
                         case.command("train", case.MINIMAL, *self.SETS, "--tokens", "1T"))
        t = sc.train(case.MINIMAL, tokens="1T", days=60)
        self.assertEqual(t.json.encode(), case.command("train", "--json", case.MINIMAL, "--tokens", "1T", "--days", "60"))

    def test_takes_numbers_of_gpus_days_and_prices_as_the_command_does(self):
        t = sc.train(case.MINIMAL, tokens="1T", gpus="16..64,24", days="60d", price="$2/GPUh")
        self.assertEqual(t.json.encode(), case.command(
            "train", "--json", case.MINIMAL, "--tokens", "1T", "--gpus", "16..64,24", "--days", "60d", "--price", "$2/GPUh"))
        for gpus in ("8", 8, [8], (8,), ["8"], "8..15"):
            self.assertEqual([plan.gpus for plan in sc.train(case.MINIMAL, tokens="1T", gpus=gpus).plans], [8], gpus)
        self.assertEqual([plan.gpus for plan in sc.train(case.MINIMAL, tokens="1T", gpus=(16, "32..64")).plans], [16, 32, 64])
        self.assertEqual(sc.train(case.MINIMAL, tokens=10**12).json, sc.train(case.MINIMAL, tokens="1T").json)

    def test_says_what_is_wrong_with_what_it_was_given(self):
        for arguments, words in (({"gpus": "8-16"}, "gpus='8-16' is no number of GPUs"), ({"gpus": 0}, "gpus=0 is no number"),
                                 ({"gpus": [8, 1.5]}, "gpus=[8, 1.5] is no number"), ({"gpus": "64..16"}, "gpus='64..16' ends before"),
                                 ({"gpus": 10**8}, "gpus=100000000 is no number"), ({"gpus": "1..2..4"}, "gpus='1..2..4' is no number"),
                                 ({"days": 0}, "days=0 is no number of days"), ({"days": "soon"}, "days='soon' is no number of days"),
                                 ({"days": "1d2"}, "days='1d2'"), ({"days": float("nan")}, "days=nan"), ({"tokens": 0}, "'tokens' must be above 0, not 0"),
                                 ({"price": 2}, "'2' is no price"), ({"price": "2EUR"}, "job.price")):
            with self.assertRaises(sc.StepcastError) as caught:
                sc.train(case.MINIMAL, **{"tokens": "1T", **arguments})
            self.assertIn(words, str(caught.exception), arguments)
            self.assertEqual(caught.exception.status, 2)

    def test_has_the_keys_as_attributes(self):
        t = sc.train(case.MINIMAL, self.JOB, tokens="1T")
        data = json.loads(t.json)
        self.assertEqual(t.days, data["days"])
        self.assertEqual(t.goodput, data["ettr"])
        self.assertAlmostEqual(sum(seconds for key, seconds in data["waterfall"].items() if key != "wall_s"), t.waterfall.wall_s, delta=1)
        self.assertEqual(t.intervals[0].every_s, data["intervals"][0]["every_s"])
        self.assertAlmostEqual(t.price_usd, 2 * t.gpu_hours, delta=1)
        self.assertEqual(pickle.loads(pickle.dumps(t)).days, t.days)

    def test_of_steps_that_do_not_fit_says_so_beside_the_days(self):
        t = sc.train(case.MINIMAL, {"batch.micro": 8}, tokens="1T")
        self.assertFalse(t.fits)
        self.assertIn("does NOT fit", str(t))
        self.assertIn("does not fit", t._repr_html_())
        self.assertTrue(sc.train(case.MINIMAL, tokens="1T").fits)

    def test_shows_a_table_in_a_notebook(self):
        t = sc.train({**case.SMALL, "name": "<b>mine</b>"}, tokens="1B")
        self.assertIn("&lt;b&gt;mine", t._repr_html_())
        self.assertIn("<td>useful</td>", t._repr_html_())

    def test_writes_the_report_of_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = os.path.join(folder, "a.html"), os.path.join(folder, "b.html")
            sc.train(case.MINIMAL, tokens="1T").to_html(ours)
            case.command("train", case.MINIMAL, "--tokens", "1T", "--html", theirs)
            found = pathlib.Path(theirs).read_text()
            for tokens in ("<dt>command</dt>", "job.tokens"):
                self.assertIn(tokens, found)
            self.assertIn('id="waterfall"', pathlib.Path(ours).read_text())

    def test_says_what_is_wrong_with_the_job(self):
        with self.assertRaises(sc.StepcastError) as caught:
            sc.train(case.MINIMAL, {"job.price": "-2USD/GPUh", "job.spares": 3}, tokens="1T")
        self.assertEqual([e["code"] for e in caught.exception.errors], ["E120", "E126", "E127"])


class Compare(unittest.TestCase):
    def test_gives_the_bytes_of_the_command(self):
        c = sc.compare(case.MINIMAL, {"batch.global": 16}, schedules=["1f1b", "zb-h1"])
        self.assertEqual(c.json.encode(), case.command(
            "compare", "--json", case.MINIMAL, "-s", "batch.global=16", "--schedules", "1f1b,zb-h1"))

    def test_names_cases_as_it_is_told(self):
        s = sc.load(case.SMALL)
        listed = sc.compare([s, s.set(schedule="zb-h1")])
        self.assertEqual([c.name for c in listed.cases], [s.name, s.name + " (2)"])
        c = sc.compare({"as it is": s, "zero bubble": s.set(schedule="zb-h1")})
        self.assertEqual([c.step_time_s for c in listed.cases], [c.step_time_s for c in c.cases])
        self.assertEqual([row["name"] for row in c.rows], ["as it is", "zero bubble"])
        self.assertEqual(c.baseline, "as it is")
        self.assertEqual(c.rows[1]["step_time_s"], sc.run(s, {"schedule": "zb-h1"}).step_time_s)
        self.assertIn("zero bubble", str(c))

    def test_takes_any_mapping_and_any_name(self):
        s = sc.load(case.SMALL)
        expected = sc.compare({"a": s, "b": s.set(schedule="zb-h1")})
        for cases in ({"model": s, "tuned": s.set(schedule="zb-h1")},
                      {"cluster": case.SMALL, "extends": {**case.SMALL, "schedule": "zb-h1"}},
                      types.MappingProxyType({"a": s, "b": types.MappingProxyType({**case.SMALL, "schedule": "zb-h1"})})):
            c = sc.compare(cases)
            self.assertEqual([one.name for one in c.cases], list(cases))
            self.assertEqual([one.step_time_ps for one in c.cases], [one.step_time_ps for one in expected.cases])

    def test_takes_files_of_any_name(self):
        expected = [sc.run(case.MINIMAL).step_time_ps] * 2
        for cases in ({"model": case.MINIMAL, "tuned": case.MINIMAL}, {"cluster": pathlib.Path(case.MINIMAL), "model": sc.load(case.MINIMAL)}):
            c = sc.compare(cases)
            self.assertEqual([one.name for one in c.cases], list(cases))
            self.assertEqual([one.step_time_ps for one in c.cases], expected)
        # Whatever a file is of; names of presets end in no such way.
        self.assertTrue(sc._is_named_cases({"model": "train.sh", "tuned": "llama.toml", "log": "run.out"}))
        self.assertFalse(sc._is_named_cases({"model": "qwen2.5-7b", "cluster": "dgx-h100"}))
        # What extends a file is a scenario.
        self.assertFalse(sc._is_named_cases({"extends": "a.yaml"}))

    def test_scenarios_whose_model_is_a_section_are_scenarios(self):
        one = types.MappingProxyType({**case.SMALL, "model": {"preset": "llama3-8b", "num_hidden_layers": 4}})
        self.assertEqual([c.name for c in sc.compare(one, schedules=["1f1b", "zb-h1"]).cases], ["1f1b", "zb-h1"])

    def test_takes_one_schedule_as_a_text(self):
        self.assertEqual(sc.compare(case.SMALL, schedules="zb-h1").json, sc.compare(case.SMALL, schedules=["zb-h1"]).json)

    def test_of_nothing_is_refused(self):
        for nothing in ([], {}, ()):
            with self.assertRaisesRegex(sc.StepcastError, "has no scenario, so there is nothing to compare") as caught:
                sc.compare(nothing)
            self.assertEqual(len(caught.exception.errors), 1)

    def test_says_what_could_not_run(self):
        c = sc.compare(case.SMALL, schedules=["1f1b", "no-such"])
        self.assertEqual([one.name for one in c.left_out], ["no-such"])

    def test_refuses_what_is_no_comparison(self):
        for arguments in ((case.SMALL,), ({"one": case.SMALL},)):
            with self.assertRaises(sc.StepcastError) as caught:
                sc.compare(*arguments)
            self.assertEqual(caught.exception.code, "E005")

    def test_rows_are_named_as_the_columns_of_stores(self):
        columns = set(case.command("sweep", "--csv", case.MINIMAL, "--axis", "batch.micro=1").decode().split("\n")[0].split(","))
        names = set(sc.compare(case.SMALL, schedules=["1f1b", "zb-h1"]).rows[0])
        self.assertEqual(names - columns, {"span_s", "bubble", "fits"})


class Search(unittest.TestCase):
    ARGUMENTS = ("-s", "batch.global=16", "-s", "model.num_hidden_layers=4")
    SETS = {"batch.global": 16, "model.num_hidden_layers": 4}

    def test_gives_the_bytes_of_the_command(self):
        q = sc.search(case.MINIMAL, self.SETS, objective=["step_time", "peak_memory"], where="tp <= 4", top=3, gpus=16)
        self.assertEqual(q.json.encode(), case.command(
            "search", "--json", case.MINIMAL, *self.ARGUMENTS, "--objective", "step_time,peak_memory", "--where", "tp <= 4",
            "--top", "3", "--gpus", "16"))
        self.assertEqual(q.pareto(), q.layouts)

    def test_its_layouts_name_files_as_the_scenario_does(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(Configs.CONFIG, folder + "/config.json")
            path = pathlib.Path(folder, "my.yaml")
            path.write_text("model: {hf: config.json, num_hidden_layers: 4}\ncluster: dgx-h100\nbatch: {global: 16, seq: 2048}\n")
            best = sc.search(path, where="tp * pp <= 2", top=1).best
            self.assertEqual(sc.run(best.scenario()).step_time_ps, best.step_time_ps)
            self.assertEqual(sc.train(best.scenario(), tokens="1T").gpus, 8)

    def test_its_layouts_name_files_as_what_the_scenario_extends_does(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(folder + "/sub")
            shutil.copy(Configs.CONFIG, folder + "/sub/config.json")
            other = json.loads(pathlib.Path(Configs.CONFIG).read_text())
            pathlib.Path(folder, "config.json").write_text(json.dumps({**other, "num_hidden_layers": 2}))
            pathlib.Path(folder, "sub/base.yaml").write_text("model: {hf: config.json}\n")
            path = pathlib.Path(folder, "my.yaml")
            path.write_text("extends: sub/base.yaml\ncluster: dgx-h100\nbatch: {global: 16, seq: 512}\n")
            best = sc.search(path, where="tp * pp == 8", top=1).best
            self.assertEqual(sc.run(best.scenario()).step_time_ps, best.step_time_ps)

    def test_its_first_layout_runs_in_the_time_it_says(self):
        q = sc.search(case.MINIMAL, self.SETS, top=3)
        self.assertEqual(len(q.top(2)), 2)
        self.assertEqual(sc.run(q.best.scenario()).step_time_ps, q.best.step_time_ps)
        self.assertIn(f"--tensor-model-parallel-size {q.best.tp}" if q.best.tp > 1 else "torchrun", q.best.megatron_args())
        front = [(one.step_time_s, -one.memory_reserved_bytes) for one in q.pareto()]
        self.assertEqual(front, sorted(front))

    def test_does_not_depend_on_threads_or_the_store(self):
        with tempfile.TemporaryDirectory() as folder:
            one = sc.search(case.MINIMAL, self.SETS, jobs=1, store=folder)
            self.assertEqual(os.listdir(folder), ["00-minimal.search.1-of-1.db"])
            again = sc.search(case.MINIMAL, self.SETS, jobs=2, store=folder)
            self.assertEqual(one.json, again.json)
            rows = json.loads(case.command("top", "--json", folder))["rows"]
            self.assertEqual(rows[0]["step_time_ps"], one.best.step_time_ps)

    def test_ends_when_its_progress_says_so(self):
        calls = []
        q = sc.search(case.MINIMAL, progress=lambda done, total: calls.append((done, total)) or True)
        self.assertEqual(len(calls), 1)
        self.assertFalse(q.funnel.all_seen and q.funnel.undecided == 0)

    def test_goes_on_whatever_else_its_progress_returns(self):
        returned = iter([7, "text", 1.0, [0]] * 1000)
        q = sc.search(case.MINIMAL, self.SETS, progress=lambda done, total: next(returned))
        self.assertTrue(q.funnel.all_seen)
        self.assertEqual(q.json, sc.search(case.MINIMAL, self.SETS).json)

    def test_progress_has_a_total_to_divide_by(self):
        shares = []
        q = sc.search(case.MINIMAL, progress=lambda done, total: shares.append(f"{done / total:.0%}"))
        self.assertTrue(q.funnel.all_seen)
        self.assertTrue(shares)

    def test_raises_what_its_progress_raises(self):
        def interrupted(done, total):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            sc.search(case.MINIMAL, progress=interrupted)

    def test_ends_with_ctrl_c(self):
        script = ("import stepcast as sc, os, signal, threading\n"
                  "threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
                  "try: sc.search(%r, gpus=(64, 1024), jobs=1)\n"
                  "except KeyboardInterrupt: print('interrupted')\n") % case.MINIMAL
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=100)
        self.assertEqual((done.stdout, done.stderr), ("interrupted\n", ""))

    def test_takes_numbers_of_gpus_as_the_command_does(self):
        expected = case.command("search", "--json", case.MINIMAL, *self.ARGUMENTS, "--top", "1", "--gpus", "8..16")
        for gpus in ("8..16", (8, 16), [8, 16], ("8", "16")):
            self.assertEqual(sc.search(case.MINIMAL, self.SETS, top="1", gpus=gpus).json.encode(), expected, gpus)
        self.assertEqual(sc.search(case.MINIMAL, self.SETS, top=1, gpus="8").json, sc.search(case.MINIMAL, self.SETS, top=1, gpus=8).json)

    def test_says_what_is_wrong_with_what_it_was_given(self):
        for arguments, words in (({"gpus": "8-16"}, "gpus='8-16' is no number of GPUs"), ({"gpus": (8, 16, 32)}, "gpus=(8, 16, 32) is no range"),
                                 ({"gpus": 1.5}, "gpus=1.5 is no number"), ({"gpus": (16, 8)}, "gpus=(16, 8) ends before"),
                                 ({"gpus": (8, "16..32")}, "gpus=(8, '16..32') is no number"),
                                 ({"top": 0}, "'top' must be"), ({"budget": 5}, "'budget' needs a unit"), ({"objective": 3}, "objective=3 is no text"),
                                 ({"where": ["tp <= 4", 4]}, "where=['tp <= 4', 4] is no text"), ({"schedules": [1]}, "schedules=[1] is no text")):
            with self.assertRaises(sc.StepcastError) as caught:
                sc.search(case.MINIMAL, **arguments)
            self.assertIn(words, str(caught.exception), arguments)
            self.assertEqual(caught.exception.status, 2)

    def test_refuses_wrong_words(self):
        for arguments, code in (({"objective": "speed"}, "E1"), ({"where": "tp <"}, "E"), ({"gpus": 0}, "E004"), ({"jobs": 0}, "E004"),
                                ({"budget": "soon"}, "E1")):
            with self.assertRaises(sc.StepcastError) as caught:
                sc.search(case.MINIMAL, **arguments)
            self.assertTrue(caught.exception.code.startswith(code), (arguments, caught.exception.code))


class Questions(unittest.TestCase):
    def test_size_gives_the_bytes_of_the_command(self):
        self.assertEqual(sc.size("llama3-8b", tokens="15T", mfu="40%").json.encode(),
                         case.command("size", "--json", "llama3-8b", "--tokens", "15T", "--mfu", "40%"))
        self.assertEqual(sc.size(case.MINIMAL, search=False).json.encode(), case.command("size", "--json", case.MINIMAL, "--no-search"))
        self.assertEqual(sc.size(case.SMALL, search=False).parameters, 8030261248)

    def test_presets_are_those_of_the_command(self):
        self.assertEqual(sc.presets().to_dict(), json.loads(case.command("presets", "--json")))
        self.assertIn("h100-sxm", [gpu.name for gpu in sc.presets("gpus")])
        self.assertEqual(sc.presets(show="llama3-8b").to_dict(), json.loads(case.command("presets", "--json", "--show", "llama3-8b")))
        for arguments, code in ((("gpu",), "E004"), ((None, "llama3-8x"), "E006")):
            with self.assertRaises(sc.StepcastError) as caught:
                sc.presets(arguments[0], **({"show": arguments[1]} if len(arguments) > 1 else {}))
            self.assertEqual(caught.exception.code, code)

    def test_imports_what_the_command_imports(self):
        config = str(case.ROOT / "tests/data/imports/llama3_8b.config.json")
        found = sc.import_("hf", config, preset="dgx-h100")
        self.assertEqual(found.to_dict(), json.loads(case.command("import", "--json", "hf", config, "--preset", "dgx-h100")))
        with self.assertRaises(sc.StepcastError) as caught:
            sc.import_("hff", config)
        self.assertEqual(caught.exception.code, "E004")
        with self.assertRaises(FileNotFoundError):
            sc.import_("hf", "no such file")


class Configs(unittest.TestCase):
    CONFIG = str(case.ROOT / "tests/data/imports/llama3_8b.config.json")
    RUN = {"cluster": "dgx-h100", "batch": {"global": 64, "micro": 1, "seq": 4096}}

    def test_a_config_is_taken_where_the_overrides_say_the_run(self):
        arguments = ("-s", "cluster=dgx-h100", "-s", "batch={global: 64, micro: 1, seq: 4096}")
        texts = {**self.RUN, "batch": "{global: 64, micro: 1, seq: 4096}"}
        self.assertEqual(sc.search(self.CONFIG, self.RUN, top=1).best.step_time_ps, sc.search(self.CONFIG, texts, top=1).best.step_time_ps)
        q = sc.search(self.CONFIG, texts, top=2)
        self.assertEqual(q.json.encode(), case.command("search", "--json", "-q", self.CONFIG, *arguments, "--top", "2"))
        tp = {**self.RUN, "parallel.tp": 2}
        self.assertEqual(sc.run(self.CONFIG, tp).step_time_ps,
                         json.loads(case.command("run", "--json", "-q", self.CONFIG, *arguments, "-s", "parallel.tp=2"))["step_time_ps"])
        self.assertGreater(sc.train(self.CONFIG, tp, tokens="1T").days, 0)

    def test_what_is_assumed_is_a_warning(self):
        loaded = sc.load(self.CONFIG, {"cluster": "dgx-h100", "batch.global": 64})
        self.assertTrue(any("batch.micro: 1 is assumed" in w for w in loaded.warnings), loaded.warnings)

    def test_a_folder_stands_for_the_config_in_it(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(self.CONFIG, folder + "/config.json")
            self.assertEqual(sc.size(folder, search=False).parameters, 8030261248)
            self.assertEqual(sc.run(folder, self.RUN).step_time_ps, sc.run(self.CONFIG, self.RUN).step_time_ps)
            self.assertIn("hidden_size: 4096", sc.import_("hf", folder).scenario)
            self.assertIn("hidden_size: 4096", sc.import_("auto", folder).scenario)
            with self.assertRaises(sc.StepcastError) as caught:
                sc.run(folder + "/..")
            self.assertEqual(caught.exception.code, "E101")

    def test_files_of_other_tools_are_imported_as_by_the_command(self):
        script = str(case.ROOT / "tests/data/imports/llama3_70b.args")
        r = sc.run(script, {"parallel.tp": 8})
        self.assertEqual(r.step_time_ps, json.loads(case.command("run", "--json", "-q", script, "-s", "parallel.tp=8"))["step_time_ps"])
        self.assertTrue(sc.load(script).warnings)

    def test_without_a_run_it_is_refused(self):
        with self.assertRaises(sc.StepcastError) as caught:
            sc.run(self.CONFIG)
        self.assertEqual(caught.exception.code, "E107")


class Files(unittest.TestCase):
    def test_of_a_run(self):
        r = sc.run(case.SMALL)
        with tempfile.TemporaryDirectory() as folder:
            r.to_html(folder + "/r.html")
            page = pathlib.Path(folder, "r.html").read_text()
            self.assertTrue(page.startswith("<!doctype html>") or page.startswith("<!DOCTYPE html>"), page[:30])
            case.command("run", case.MINIMAL, "--trace", folder + "/by_command.pftrace", "-q")
            sc.run(case.MINIMAL).to_perfetto(folder + "/t.pftrace")
            self.assertEqual(pathlib.Path(folder, "t.pftrace").read_bytes(), pathlib.Path(folder, "by_command.pftrace").read_bytes())
            with self.assertRaises(OSError):
                r.to_html(folder + "/no/such/folder.html")

    def test_that_exist_are_kept_unless_it_is_asked_for(self):
        r = sc.run(case.SMALL)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "r.html")
            path.write_text("mine")
            for write in (r.to_html, r.to_perfetto, sc.compare({"a": case.SMALL, "b": case.SMALL}).to_html, sc.train(case.SMALL, tokens="1T").to_html):
                with self.assertRaisesRegex(FileExistsError, "force=True overwrites it"):
                    write(path)
            self.assertEqual(path.read_text(), "mine")
            r.to_html(path, force=True)
            self.assertIn("doctype html", path.read_text()[:30].lower())

    def test_ops_end_with_the_step(self):
        r = sc.run(case.SMALL)
        ops = r.ops
        self.assertEqual(max(ops["end_ps"]), r.step_time_ps)
        self.assertEqual(set(ops["rank"]), {0, 1})
        self.assertEqual(len(list(ops)), len(ops))
        self.assertTrue(all(begin <= end for begin, end in zip(ops["begin_ps"], ops["end_ps"])))


class Frames(unittest.TestCase):
    def setUp(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is not installed")

    def test_of_ops_of_layouts_and_of_cases(self):
        r = sc.run(case.SMALL)
        ops = r.ops.to_pandas()
        self.assertEqual(len(ops), len(r.ops))
        by_rank = ops[ops.stream == "compute"].groupby("rank").end_ps.max()
        self.assertEqual(sorted(by_rank.index), [0, 1])
        frame = sc.compare(case.SMALL, schedules=["1f1b", "zb-h1"]).to_pandas()
        self.assertEqual(list(frame.name), ["1f1b", "zb-h1"])
        q = sc.search(case.MINIMAL, Search.SETS, top=3)
        self.assertEqual(list(q.to_pandas().step_time_ps), [one.step_time_ps for one in q.layouts])
        self.assertEqual(len(r.account.to_pandas()), 2)


class WithoutPandas(unittest.TestCase):
    def test_frames_say_what_is_missing(self):
        script = ("import sys; sys.modules['pandas'] = None\n"
                  "import stepcast as sc\n"
                  "try: sc.presets('gpus').to_pandas()\n"
                  "except ImportError as e: print(e)\n")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        self.assertIn("need pandas", done.stdout)


class Errors(unittest.TestCase):
    def error_of(self, *arguments, **more):
        with self.assertRaises(sc.StepcastError) as caught:
            sc.run(*arguments, **more)
        return caught.exception

    def test_say_code_and_place(self):
        e = self.error_of(sc.from_text("model: llama3-8b\nbatch: {global: 4, seq: 1024}\nclutser: dgx-h100\n", "mine.yaml"))
        misspelt = [one for one in e.errors if one["code"] == "E102"][0]
        self.assertEqual((misspelt["file"], misspelt["line"], misspelt["column"]), ("mine.yaml", 3, 1))
        self.assertIn("cluster", misspelt["label"])

    def test_have_fields_of_the_first_problem(self):
        e = self.error_of({**case.SMALL, "parallel": {"tpp": 2}})
        self.assertEqual((e.code, e.file, e.line, e.column, e.status), ("E102", "<dict>", 1, 64, 2))
        self.assertEqual(e.message, "unknown key 'tpp' in 'parallel'")
        self.assertIsNone(e.note)
        self.assertIn("error[E102]: unknown key 'tpp'", str(e))
        self.assertEqual(self.error_of({"model": "llama3-8b"}).help[:5], "a pre")

    def test_of_files_have_the_status_of_the_command(self):
        self.assertEqual(self.error_of("no such file.yaml").code, "E101")
        self.assertEqual(self.error_of("no such file.yaml").status, 7)

    def test_go_to_other_processes(self):
        e = pickle.loads(pickle.dumps(self.error_of({**case.SMALL, "parallel": {"tpp": 2}})))
        self.assertEqual((e.code, e.status), ("E102", 2))

    def test_of_values_that_no_scenario_holds(self):
        for value in (object(), {1, 2}, float("nan"), float("inf")):
            with self.assertRaises((TypeError, ValueError)):
                sc.run(case.SMALL, {"parallel.tp": value})

    def test_of_text_that_is_no_unicode(self):
        for subject in ("\ud800.yaml", {**case.SMALL, "name": "\ud800"}):
            self.assertEqual(self.error_of(subject).status, 2)

    def test_of_zeros_in_names(self):
        self.assertIn(self.error_of("a\0b.yaml").status, (2, 7))


if __name__ == "__main__":
    case.main()
