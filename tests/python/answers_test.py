# SPDX-License-Identifier: Apache-2.0
"""What the functions of the package answer, beside the command's --json."""
import json
import pickle
import unittest

import case
import stepcast as sc


class Run(unittest.TestCase):
    def test_gives_the_bytes_of_the_command(self):
        for name in ("00-minimal", "gpt3-175b-64xa100"):
            path = str(case.EXAMPLES / f"{name}.yaml")
            self.assertEqual(sc.run(path).json.encode(), case.command("run", "--json", path))

    def test_sets_values_as_the_command_does(self):
        r = sc.run(case.MINIMAL, {"parallel.tp": 4, "schedule": "zb-h1", "optimizer.precision": None})
        self.assertEqual(r.json.encode(), case.command(
            "run", "--json", case.MINIMAL, "-s", "parallel.tp=4", "-s", "schedule=zb-h1", "-s", "optimizer.precision=null"))

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
