#!/usr/bin/env python3
"""write_verdicts: nothing that failed gets lost, what nobody has explained says so, and variants stand side by side."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parent / "write_verdicts"


def result(subject, name, verdict="conforms", counts=None, **more):
    return {"subject": subject, "property": name, "verdict": verdict, "counts": counts or {verdict: 3}, "message": "",
            "cause": None, "shrunk": None, **more}


def report(folder, subject, results, complete=True, asked=()):
    folder.mkdir()
    coverage = {"gemma3n: layers shared": {"met": 4, "required": 1}, "gemma3n: no layer shared": {"met": 2, "required": 1},
                "gemma4: layers shared": {"met": 9, "required": 1}, "gemma4: window of one": {"met": 5, "required": 0}}
    books = {"name": "Engine", "version": "1.0", "dtype": "float32", "coverage": coverage}
    (folder / "summary.json").write_text(json.dumps(
        {"seed": 7, "size": "default", "cases": 9, "complete": complete, "asked": {"properties": list(asked)},
         "subjects": {subject: books}}))
    (folder / "results.jsonl").write_text("".join(json.dumps(r) + "\n" for r in results))
    return folder


def verdicts(*reports):
    run = subprocess.run([sys.executable, PROGRAM, *reports], capture_output=True, text=True)
    if run.returncode:
        raise AssertionError(run.stderr)
    return run.stdout


class Verdicts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def test_an_engine_with_one_report_gets_a_line_a_property(self):
        text = verdicts(report(self.path / "a", "engine", [
            result("engine", "chunking", counts={"conforms": 12, "refused": 4}),
            result("engine", "rollback", "broken", {"conforms": 1, "broken": 1}, message="it|fell",
                   shrunk={"layers": 1, "calls": 2, "prompt": 1})]))
        self.assertIn("| `chunking` | conforms | 12 | 4 |", text)
        self.assertIn("| `rollback` | broken | 2 | 0 | 1 layer, 2 calls, 1 token | **not explained** |", text)

    def test_a_failure_that_findings_explain_has_its_sentence(self):
        text = verdicts(report(self.path / "a", "transformers", [
            result("transformers", "load-tolerance", "differs", message="differs where names begin with x")]))
        self.assertNotIn("not explained", text)
        self.assertIn("random weights", text)

    def test_a_finding_about_one_property_explains_no_other(self):
        text = verdicts(report(self.path / "a", "llama-cpp", [
            result("llama-cpp", "save-and-restore", "differs", message="call 3, row 0"),
            result("llama-cpp", "rollback", "differs", message="call 3, row 0")]))
        lines = [line for line in text.splitlines() if line.startswith("| `")]
        self.assertEqual([("seq_cp" in line, "not explained" in line) for line in lines], [(True, False), (False, True)])

    def test_variants_stand_side_by_side_with_the_counts_of_each_family(self):
        text = verdicts(
            report(self.path / "a", "engine", [
                result("engine", "chunking", counts={"conforms": 12}), result("engine", "rollback", "refused")]),
            report(self.path / "b", "engine:fast,low", [
                result("engine:fast,low", "chunking", "differs", {"conforms": 11, "differs": 1}),
                result("engine:fast,low", "rollback", counts={"conforms": 2, "refused": 2},
                       reasons=[{"verdict": "refused", "text": "no room", "cases": 2}])]))
        self.assertIn("| `engine` | float32 | Seed 7, size default, 15 cases, 12 a property | 6 | 9 | 0 | 0 | 3 | 0 |", text)
        self.assertIn("| `engine:fast,low` | float32 | Seed 7, size default, 16 cases, 12 a property | 6 | 9 | 1 | 0 | 2 | 0 |", text)
        self.assertIn("| property | engine | fast, low |", text)
        self.assertIn("| `chunking` | 12 | **differs**, 12 |", text)
        self.assertIn("| `rollback` | refused | 2 |", text)
        self.assertIn("| `chunking` | fast, low |  | **not explained** |", text)
        self.assertIn("| no room | 2 |", text)

    def test_an_interrupted_run_is_called_so(self):
        text = verdicts(report(self.path / "a", "engine", [result("engine", "chunking")], complete=False))
        self.assertIn("the run was interrupted", text)

    def test_what_was_not_asked_or_not_run_says_so(self):
        text = verdicts(
            report(self.path / "a", "engine", [result("engine", "chunking"), result("engine", "rollback")]),
            report(self.path / "b", "engine:fast", [result("engine:fast", "chunking")], complete=False),
            report(self.path / "c", "engine:low", [result("engine:low", "chunking")], asked=["chunking"]))
        self.assertIn("| `rollback` | 3 | not run | not asked |", text)

    def test_every_engine_keeps_its_heading(self):
        text = verdicts(report(self.path / "a", "one", [result("one", "chunking")]),
                        report(self.path / "b", "two", [result("two", "chunking")]))
        self.assertIn("## one", text)
        self.assertIn("## two", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
