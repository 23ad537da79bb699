#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checks find what they are there to find: each is run on a small tree with one fault."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
MODULES = "stepcast_module(sim)\nstepcast_module(model DEPENDS sim)\n"


class TreeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, name, text, mode=0o644):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def run_tool(self, *command):
        done = subprocess.run([*command, self.root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def expect_clean(self, *command):
        self.assertEqual(self.run_tool(*command)[0], 0, self.run_tool(*command)[1])

    def expect_complaint(self, text, *command):
        status, output = self.run_tool(*command)
        self.assertEqual(status, 1, output)
        self.assertIn(text, output)


class Layers(TreeTest):
    TOOL = (sys.executable, ROOT / "tools/check_layers")

    def setUp(self):
        super().setUp()
        self.write("CMakeLists.txt", MODULES)
        self.write("sim/units.h", SPDX + "#include <vector>\n")
        self.write("model/plan.h", SPDX + '#include "sim/units.h"\n')

    def test_inner_folders_may_be_included(self):
        self.expect_clean(*self.TOOL)

    def test_outer_folders_may_not(self):
        self.write("sim/step.cc", SPDX + '#include "model/plan.h"\n')
        self.expect_complaint('sim/step.cc:2: sim/ must not include "model/plan.h"', *self.TOOL)

    def test_tests_may_not_be_included(self):
        self.write("tests/sim/fake.h", SPDX)
        self.write("model/plan.cc", '#include "tests/sim/fake.h"\n')
        self.expect_complaint("model/plan.cc:1: model/ must not include", *self.TOOL)

    def test_a_folder_in_a_folder_has_a_layer_of_its_own(self):
        self.write("scenarios/scenario.h", SPDX)
        self.write("scenarios/forecast/forecast.h", SPDX + '#include "scenarios/scenario.h"\n')
        self.expect_clean(*self.TOOL)
        self.write("scenarios/scenario.cc", SPDX + '#include "scenarios/forecast/forecast.h"\n')
        self.expect_complaint("scenarios/scenario.cc:2: scenarios/ must not include", *self.TOOL)

    def test_records_of_runs_know_documents_and_no_scenarios(self):
        self.write("scenarios/scenario.h", SPDX)
        self.write("scenarios/document/value.h", SPDX)
        self.write("calibrate/runs/record.h", SPDX + '#include "scenarios/document/value.h"\n')
        self.expect_clean(*self.TOOL)
        self.write("calibrate/runs/record.cc", SPDX + '#include "scenarios/scenario.h"\n')
        self.expect_complaint("calibrate/runs/record.cc:2: calibrate/runs/ must not include", *self.TOOL)

    def test_includes_are_paths_from_the_root(self):
        self.write("sim/step.cc", '#include "units.h"\n')
        self.expect_complaint('sim/step.cc:1: "units.h" is no file', *self.TOOL)

    def test_cycles_are_named(self):
        self.write("sim/a.h", '#include "sim/b.h"\n')
        self.write("sim/b.h", '#include "sim/c.h"\n')
        self.write("sim/c.h", '#include "sim/b.h"\n')
        self.expect_complaint("sim/b.h -> sim/c.h -> sim/b.h", *self.TOOL)

    def test_slow_headers_stay_out_of_headers(self):
        self.write("sim/a.cc", "#include <boost/graph/adjacency_list.hpp>\n")
        self.expect_clean(*self.TOOL)
        self.write("sim/a.h", "#include <boost/graph/adjacency_list.hpp>\n")
        self.expect_complaint("sim/a.h:1: <boost/graph/adjacency_list.hpp> is slow", *self.TOOL)

    def test_libraries_are_linked_along_the_same_arrows(self):
        self.write("CMakeLists.txt", MODULES + "stepcast_module(report DEPENDS sim model)\n")
        self.expect_complaint("CMakeLists.txt:3: report links ['sim', 'model']", *self.TOOL)

    def test_an_empty_tree_is_no_success(self):
        with tempfile.TemporaryDirectory() as empty:
            self.root = pathlib.Path(empty)
            self.write("CMakeLists.txt", "")
            self.expect_complaint("no source files", *self.TOOL)


class SourceText(TreeTest):
    @staticmethod
    def lint(check):
        return sys.executable, ROOT / "tests/lint/lint.py", check

    def test_missing_licence(self):
        self.write("sim/a.h", SPDX)
        self.write("tools/run", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n")
        self.write("build/x/a.h", "built\n")
        self.expect_clean(*self.lint("licence"))
        self.write("tools/run", "#!/bin/sh\necho\n")
        self.expect_complaint("tools/run:1", *self.lint("licence"))
        self.write("sim/a.h", "#pragma once\n" + SPDX)
        self.expect_complaint("sim/a.h:1", *self.lint("licence"))

    def test_paths_of_one_machine(self):
        folder = "/" + "work/main"
        self.write("sim/a.cc", "// sim/work/x and https://a.b/" + "work/x are fine\n")
        self.expect_clean(*self.lint("words"))
        self.write("docs/a.md", f"see `{folder}`\n")
        self.expect_complaint("docs/a.md:1: names /", *self.lint("words"))

    def test_tabs_and_trailing_blanks(self):
        self.write("tests/data/a.csv", "a\tb \n")
        self.write("sim/a.cc", "int a;\n")
        self.expect_clean(*self.lint("blanks"))
        self.write("sim/a.cc", "int a; \n")
        self.expect_complaint("sim/a.cc:1: blanks", *self.lint("blanks"))
        self.write("sim/a.cc", "\nint\ta;\n")
        self.expect_complaint("sim/a.cc:2: tab", *self.lint("blanks"))

    def test_names_of_files_with_blanks(self):
        self.write("sim/a.cc", "int a;\n")
        self.expect_clean(*self.lint("file_names"))
        self.write("here | what was meant", "int a;\n")
        self.expect_complaint("here | what was meant:1: the file's name", *self.lint("file_names"))

    def test_comments_that_a_formatter_broke(self):
        long = "// " + "word " * 17 + "words"
        rule = "// " + "-" * 80
        self.write("sim/a.cc", f"{rule} title\n// Text.\n\n{long}\n// end.\n{long}\n// the end\nint a;\n")
        self.expect_clean(*self.lint("reflow"))
        self.write("sim/a.cc", f"{rule} reading the\n// section\n")
        self.expect_complaint("sim/a.cc:2: the title belongs", *self.lint("reflow"))
        self.write("sim/a.cc", f"{long}\n// and\n{long}\n")
        self.expect_complaint("sim/a.cc:2: 'and' alone", *self.lint("reflow"))

    def test_headers_that_are_not_included_first(self):
        self.write("sim/a.h", SPDX)
        self.write("sim/a.cc", SPDX + '#include "sim/a.h"\n\n#include <vector>\n')
        self.write("sim/main.cc", SPDX + "#include <vector>\n")
        self.expect_clean(*self.lint("own_header"))
        self.write("sim/a.cc", SPDX + '#include <vector>\n\n#include "sim/a.h"\n')
        self.expect_complaint('sim/a.cc:1: does not include "sim/a.h" first',
                              *self.lint("own_header"))

    def test_dead_links(self):
        self.write("docs/a.md", "[b](b.md) [web](https://example.org/b.md#x)\n")
        self.write("docs/b.md", "\n")
        self.expect_clean(*self.lint("links"))
        self.write("README.md", "\n[a](a.md)\n")
        self.expect_complaint("README.md:2: link to a.md", *self.lint("links"))

    def test_dead_anchors(self):
        self.write("docs/b.md", "# A `word`, and [more](c.md)\n```\n# none\n```\n## Twice\n## Twice\n")
        self.write("docs/c.md", "# C\n[b](b.md#a-word-and-more) [2](b.md#twice-1) [here](#c)\n")
        self.expect_clean(*self.lint("links"))
        self.write("docs/c.md", "# C\n[b](b.md#none)\n")
        self.expect_complaint("docs/c.md:2: link to b.md#none", *self.lint("links"))
        self.write("docs/c.md", "# C\n[b](#x)\n")
        self.expect_complaint("docs/c.md:2: link to #x", *self.lint("links"))

    def test_comments_that_name_files(self):
        self.write("sim/lanes/a.h", SPDX + "// See b.cc, lanes/b.cc and sim/lanes/b.cc, and src/graph/topo.h.\n")
        self.write("sim/lanes/b.cc", SPDX + '#include "sim/gone.h"\n')
        self.expect_clean(*self.lint("named_files"))
        self.write("sim/lanes/b.cc", SPDX + "int x;  // of sim/b.cc\n")
        self.expect_complaint("sim/lanes/b.cc:2: names sim/b.cc, which is not there", *self.lint("named_files"))
        self.write("sim/lanes/b.cc", SPDX + "// As in b.cc\n")
        self.expect_complaint("sim/lanes/b.cc:2: names itself", *self.lint("named_files"))
        self.write("sim/lanes/b.cc", SPDX)
        self.write("sim/costs.csv", "# Of sim/gone.h\nname,value\n")
        self.expect_complaint("sim/costs.csv:1: names sim/gone.h", *self.lint("named_files"))

    def test_packages_of_the_readme(self):
        self.write("tools/dependencies", "#!/bin/sh\necho cmake ninja-build\n", 0o755)
        self.write("README.md", "    apt-get install -y cmake \\\n      ninja-build\n")
        self.expect_clean(*self.lint("packages"))
        self.write("README.md", "    apt-get install cmake\n")
        self.expect_complaint("does not name ninja-build", *self.lint("packages"))
        self.write("README.md", "    apt-get install cmake ninja-build vim\n")
        self.expect_complaint("names vim", *self.lint("packages"))

    def test_unknown_checks_are_refused(self):
        self.assertEqual(self.run_tool(*self.lint("nonsense"))[0], 2)


STEPCAST = """#!/bin/sh
case "$*" in
  --help) printf 'Usage\\n\\nCommands:\\n  run     forecasts\\n';;
  "run --help") echo '  --json  prints JSON';;
  "help E999") exit 2;;
  schema) echo '{"properties": {"overlap": {"anyOf": [{"properties": {"tp": {}}}]}}}';;
  "validate "*) ! grep -q wrong ${2:-x};;
  *) echo $*; echo second;;
esac
"""


class Shown(TreeTest):
    """What the pages show, by a command that prints its arguments."""

    def setUp(self):
        super().setUp()
        self.write("stepcast", STEPCAST, 0o755)
        self.write("scenarios/examples/00-minimal.yaml", "model: x\n")
        self.write("README.md", "| `run FILE` | overlap tp |\n")

    def shown(self, kind):
        return sys.executable, ROOT / f"tests/lint/shown_{kind}.py", self.root / "stepcast"

    def test_output(self):
        self.write("README.md", "```\n$ stepcast run 'a b'\nrun a b\nsecond\n$ echo 1 | cat\n1\n```\n\n```\nx\n```\n")
        self.expect_clean(*self.shown("output"))
        self.write("docs/a.md", "text\n```\n$ stepcast run c\nrun c\n```\n")
        self.expect_complaint("+second", *self.shown("output"))
        self.expect_clean(*self.shown("output"), "--update")
        self.expect_clean(*self.shown("output"))
        self.assertIn("run c\nsecond\n```\n", (self.root / "docs/a.md").read_text())
        self.write("stepcast", "#!/bin/sh\nexit 2\n", 0o755)
        self.expect_complaint("exit status 2", *self.shown("output"))

    def test_what_a_program_writes_is_left_out_and_nothing_between(self):
        written = "<!-- {0}: begin -->\n```\n$ stepcast run {0}\n```\n<!-- {0}: end -->\n"
        self.write("docs/a.md", written.format("runs") + written.format("collectives"))
        self.expect_clean(*self.shown("output"))
        self.write("docs/a.md", written.format("runs") + "```\n$ stepcast run c\n```\n" + written.format("collectives"))
        self.expect_complaint("+run c", *self.shown("output"))

    def test_commands_of_blocks(self):
        self.write("docs/a.md", "```\nstepcast run my.yaml -o out.csv   # made\ncat \\\n  my.yaml\n```\n```text\nno command\n```\n")
        self.expect_clean(*self.shown("commands"))
        self.write("docs/a.md", "```\nstepcast run my.yaml\ncat out.csv\n```\n")
        self.expect_complaint("docs/a.md:1: cat out.csv\nexit status 1", *self.shown("commands"))
        self.write("docs/a.md", "```ruby\nx\n```\n")
        self.expect_complaint("a block of 'ruby', which no test reads", *self.shown("commands"))
        self.write("docs/a.md", "\n    stepcast run a\n")
        self.expect_complaint("docs/a.md: a command outside of a fenced block: stepcast run a", *self.shown("commands"))
        self.write("docs/a.md", "```\ntools/test -j2\n```\n")  # builds: not run
        self.expect_clean(*self.shown("commands"))

    def test_commands_in_the_text(self):
        self.write("stepcast", '#!/bin/sh\ncat "$2"\n', 0o755)
        self.write("docs/a.md", "`stepcast run`, `stepcast run FILE`, `stepcast import KIND`\n")
        self.expect_clean(*self.shown("commands"))
        self.write("docs/a.md", "`stepcast run\nother.yaml`\n")
        self.expect_complaint("docs/a.md:1: stepcast run other.yaml", *self.shown("commands"))

    def test_patterns_that_select_no_test(self):
        self.write("build/tools/stepcast", STEPCAST, 0o755)
        self.write("build/CTestTestfile.cmake", 'add_test(sim.test_sim.0 "true")\n')
        self.write("tests/sim/units_test.cc", "TEST(Units, AddUp) {}\n")
        tool = (sys.executable, ROOT / "tests/lint/shown_commands.py", self.root / "build/tools/stepcast")
        self.write("docs/a.md", "`tools/test -R sim.`\n```text\ntest_sim --gtest_filter='Units.*'\n```\n")
        self.expect_clean(*tool)
        self.write("docs/a.md", "\n`-R Units` runs one\n")  # a case, which ctest does not know
        self.expect_complaint("docs/a.md:2: ctest has no test Units", *tool)
        self.write("docs/a.md", "`test_sim --gtest_filter=Unit.*`\n")
        self.expect_complaint("docs/a.md:1: no case Unit.*", *tool)

    def test_yaml(self):
        self.write("docs/a.md", "```yaml\nmodel: x\n```\n```yaml\n# b.yaml\nseed: 1\n```\n`stepcast run b.yaml`\n")
        self.expect_clean(*self.shown("commands"))
        self.write("docs/a.md", "```yaml\nmodel: wrong\n```\n")
        self.expect_complaint("docs/a.md:1: model: wrong", *self.shown("commands"))

    def test_cpp(self):
        self.write("sim/units.h", "using Bytes = long;\n")
        self.write("docs/a.md", '```cpp\n#include "sim/units.h"\nBytes none = 0;\n```\n')
        self.expect_clean(*self.shown("commands"))
        self.write("docs/a.md", "```cpp\nBytes none = 0;\n```\n")
        self.expect_complaint("docs/a.md:1: C++", *self.shown("commands"))

    def test_names(self):
        self.write("tools/accuracy", "--update\n")
        self.write("docs/a.md", "`stepcast run --json`, `--update`, `overlap.tp`, `tools/accuracy`, `a.md`, `overlap: {tp: none}`\n")
        self.expect_clean(*self.shown("names"))
        for shown, complaint in (("stepcast walk", "no command 'walk'"),
                                 ("stepcast run --update", "'stepcast run' has no option --update"),
                                 ("--nothing", "no program has an option --nothing"),
                                 ("overlap.dp", "no key 'dp'"), ("overlap: {tp: x, dp: y}", "no key 'dp'"),
                                 ("tools/gone.cc", "no file tools/gone.cc"), ("gone.h", "no file gone.h"),
                                 ("E999", "no error E999")):
            self.write("docs/a.md", f"\n`{shown}`\n")
            self.expect_complaint(complaint, *self.shown("names"))

    def test_keys_that_no_page_names(self):
        self.write("README.md", "| `run FILE` | overlap |\n")
        self.expect_complaint("no page names the key overlap.tp", *self.shown("names"))

    def test_table_of_commands(self):
        self.write("README.md", "none\n")
        self.expect_complaint("README.md: no row of the command 'run'", *self.shown("names"))


if __name__ == "__main__":
    unittest.main()
