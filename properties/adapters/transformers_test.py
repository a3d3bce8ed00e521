#!/usr/bin/env python3
"""The released transformers conforms, in each kind of cache, to what its adapter offers; its known defects are still there
(when they are not, verdicts_by_hand.md and what the adapter refuses or goes around have to follow).

    transformers_test.py KVCONFORM     exit 77: not run, the environment does not exist. It downloads 600 MB, so that a
                                       test does not make it: kvconform check --subject transformers does
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ENVIRONMENT = pathlib.Path(os.environ.get("KVCONFORM_ENVIRONMENTS", HERE.parents[1] / "build" / "environments"),
                           "transformers")
KVCONFORM = ""


def check(subject, *words):
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([KVCONFORM, "check", "--subject", subject, "--cases", "4", "--size", "smoke", "--timeout",
                              "200", "--report", folder + "/report", *words], capture_output=True, text=True)
        lines = pathlib.Path(folder, "report", "results.jsonl").read_text().splitlines()
    return run.stdout + run.stderr, [json.loads(line) for line in lines]


class Transformers(unittest.TestCase):
    def test_each_kind_of_cache_conforms(self):
        for subject in ("transformers", "transformers:sdpa,static", "transformers:recording,last"):
            output, results = check(subject)
            compared = 0
            for result in results:
                if result["property"] == "load-tolerance" and result["verdict"] == "differs":
                    self.assertIn("where names begin with", result["message"])  # scripts/transformers_prefix.py
                    continue
                self.assertNotIn(result["verdict"], ("differs", "broken", "flaky"), output)
                compared += result["counts"].get("conforms", 0)
            self.assertGreater(compared, 30, output)

    def test_a_mask_that_is_not_handed_on_is_found(self):
        """The adapter with a fault of its own: padding that everybody sees."""
        source = (HERE / "transformers_adapter.py").read_text()
        blind = source.replace('inputs["attention_mask"] = mask', 'inputs["attention_mask"] = torch.ones_like(mask)')
        self.assertNotEqual(source, blind)
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "adapter.py").write_text(blind)
            command = f"PYTHONPATH='{HERE}' exec '{ENVIRONMENT}/bin/python' -B '{folder}/adapter.py'"
            output, results = check("process:" + command, "--property", "batch-rows")
        self.assertEqual(results[0]["verdict"], "differs", output)

    def test_what_the_adapter_cannot_rewind_within_the_margin_is_unsupported_and_not_invalid(self):
        run = subprocess.run([KVCONFORM, "replay", HERE / "cases" / "transformers_unequal_rewind.json", "--timeout", "200"],
                             capture_output=True, text=True)
        self.assertRegex(run.stdout + run.stderr, ": refused: .*rows are rewound by unequal numbers")

    def script(self, name):
        return subprocess.run([ENVIRONMENT / "bin" / "python", "-B", HERE / "scripts" / name], capture_output=True,
                              text=True)

    def test_shared_layers_without_per_layer_inputs_still_end_in_a_type_error(self):
        run = self.script("transformers_no_per_layer_inputs.py")
        self.assertIn("TypeError: 'NoneType' object is not subscriptable", run.stderr)

    def test_a_window_of_one_still_sees_everything_through_a_dynamic_cache(self):
        run = self.script("transformers_window_of_one.py")
        differences = [float(word) for word in run.stdout.split("[[")[1].split("]]")[0].split(",")]
        self.assertLess(differences[0], 1e-5)
        self.assertGreater(min(differences[1:]), 1e-3)

    def test_a_second_crop_still_takes_too_few_keys_for_enough(self):
        run = self.script("transformers_crop_twice.py")
        once = re.search(r"\[2\] (\S+)", run.stdout)
        self.assertLess(float(once[1]), 1e-5)
        self.assertIn("RuntimeError: The size of tensor a (3) must match the size of tensor b (4)", run.stderr)

    def test_an_empty_sliding_layer_still_cannot_be_cropped(self):
        run = self.script("transformers_crop_of_nothing.py")
        self.assertIn("full_attention can be cropped", run.stdout)
        self.assertIn("AttributeError: 'NoneType' object has no attribute 'shape'", run.stderr)


if __name__ == "__main__":
    KVCONFORM = sys.argv.pop(1)
    made_from = ENVIRONMENT / "made-from.txt"
    if not made_from.exists() or made_from.read_text() != (HERE / "transformers.txt").read_text():
        print("not run: no Python environment for transformers (kvconform check --subject transformers makes it)")
        sys.exit(77)
    unittest.main(verbosity=2)
