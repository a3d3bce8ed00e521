#!/usr/bin/env python3
"""What is known to be wrong in mlx-lm 0.32.2 is found by an ordinary check, with a small case and its cause in words;
with the fault mended in a copy the same check is silent, and an older fault put back is told apart from it.

    mlx_lm_test.py KVCONFORM        exit 77: not run, there is no environment for mlx-lm and none can be made

To add a fault: a patch (pairs of text in the release and what replaces it) and a test below.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

KVCONFORM = ""
SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="mlx-lm-test-"))

# Consumers get their owner's keys and values also where there is no cache (mlx-lm #1674): caches that only hand on.
MEND = [
    ("from .cache import KVCache, RotatingKVCache", "from .cache import ConcatenateKVCache, KVCache, RotatingKVCache"),
    ("if self.is_kv_shared_layer and cache is not None:", "if self.is_kv_shared_layer:"),
    ("        offset = cache[0].offset if",
     "        if cache[0] is None:\n"
     "            cache = [ConcatenateKVCache() for _ in range(self.first_kv_shared_layer_idx)]\n"
     "        offset = cache[0].offset if"),
]
# As releases before had it: consumers read the position from a cache that the owner has advanced already (mlx-lm #1805).
# 0.32.2 takes one position for the whole call.
ADVANCED = [
    ("            keys, values = cache.keys_and_values()\n",
     "            keys, values = cache.keys_and_values()\n"
     "            offset = offset if isinstance(cache, ConcatenateKVCache) else cache.offset\n"),
]


def kvconform(*words, checkout=None):
    environment = dict(os.environ, NO_COLOR="1")
    environment.pop("KVCONFORM_MLX_LM", None)
    if checkout:
        environment["KVCONFORM_MLX_LM"] = str(checkout)
    return subprocess.run([KVCONFORM, *map(str, words)], capture_output=True, text=True, env=environment)


def check(*words, checkout=None):
    """Results by property, of a check in a folder that has no reports of earlier ones beside it."""
    report = pathlib.Path(tempfile.mkdtemp(dir=SCRATCH)) / "report"
    run = kvconform("check", "--subject", "mlx-lm", "--report", report, *words, checkout=checkout)
    if not (report / "results.jsonl").exists():
        raise AssertionError(run.stdout + run.stderr)
    results = [json.loads(line) for line in (report / "results.jsonl").read_text().splitlines()]
    return {result["property"]: result for result in results}


def copy_of_release(name, patches):
    """A checkout with gemma3n.py changed. The patches are for the pinned release."""
    root = SCRATCH / name
    installed = next(pathlib.Path(environment_folder()).glob("lib/python*/site-packages/mlx_lm"))
    (root / "mlx_lm").mkdir(parents=True)
    shutil.copy(installed / "_version.py", root / "mlx_lm")
    shutil.copytree(installed / "models", root / "mlx_lm" / "models")
    file = root / "mlx_lm" / "models" / "gemma3n.py"
    text = file.read_text()
    for old, new in patches:
        assert text.count(old) == 1, f"gemma3n.py of the release has not exactly one: {old}"
        text = text.replace(old, new)
    file.write_text(text)
    return root


def environment_folder():
    here = pathlib.Path(__file__).resolve().parents[2]
    return os.environ.get("KVCONFORM_ENVIRONMENTS", here / "build" / "environments") / pathlib.Path("mlx-lm")


def small_model(shared):
    """Both types of layers below the shared ones; with the dead projections that mlx-lm insists on."""
    folder = SCRATCH / f"shared-{shared}"
    if not folder.exists():
        dead = ["--dead-tensors", "random"] if shared else []
        made = kvconform("model", "create", folder, "--family", "gemma3n", "--seed", 5, "--num-hidden-layers", 4,
                         "--num-kv-shared-layers", shared, "--layer-types",
                         '["sliding_attention","full_attention","sliding_attention","full_attention"]', *dead)
        assert made.returncode == 0, made.stdout + made.stderr
    return folder


class MlxLm(unittest.TestCase):
    def expect_small(self, result, *words):
        self.assertEqual(result["verdict"], "differs", result["message"])
        for word in words:
            self.assertIn(word, result["cause"])
        self.assertLessEqual(result["shrunk"]["layers"], 4)

    def test_the_release_computes_own_keys_without_a_cache(self):
        result = check("--property", "cache-independence")["cache-independence"]
        self.expect_small(result, "#1674", "projects its own")

    def test_the_release_takes_one_position_for_the_whole_call(self):
        result = check("--property", "prefill-equals-decode")["prefill-equals-decode"]
        self.assertEqual(result["verdict"], "conforms", result["message"])
        self.assertGreater(result["counts"]["conforms"], 8)

    def test_the_release_masks_what_padded_rows_may_see_once_a_batch_ring_has_wrapped(self):
        result = check("--property", "batch-rows")["batch-rows"]
        self.expect_small(result, "BatchRotatingKVCache", "padding")

    def test_the_release_cannot_go_on_with_a_batch_cache_read_from_a_file(self):
        result = check("--property", "save-and-restore")["save-and-restore"]
        self.assertEqual(result["verdict"], "broken")
        self.assertIn("has no attribute '_lengths'", result["message"])

    def expect_none_differs(self, result):
        """Sessions that restore a batch break, whatever the model: that is the test above."""
        self.assertNotIn("differs", result["counts"], result["message"])
        self.assertGreater(result["counts"]["conforms"], 8)
        if "broken" in result["counts"]:
            self.assertIn("has no attribute '_lengths'", result["message"])

    def test_nothing_shared_nothing_wrong(self):
        words = ("--property", "cache-independence", "--cases", 20, "--model")
        self.expect_none_differs(check(*words, small_model(0))["cache-independence"])
        self.assertGreater(check(*words, small_model(2))["cache-independence"]["counts"]["differs"], 8)

    def test_mended_it_conforms(self):
        copy = copy_of_release("mended", MEND)
        self.expect_none_differs(check("--property", "cache-independence", checkout=copy)["cache-independence"])

    def test_queries_at_the_advanced_offset_are_another_cause(self):
        copy = copy_of_release("advanced", MEND + ADVANCED)
        results = check("--property", "cache-independence", "--property", "prefill-equals-decode", checkout=copy)
        for result in results.values():
            self.expect_small(result, "#1805")
            self.assertNotIn("#1674", result["cause"])


if __name__ == "__main__":
    KVCONFORM = sys.argv.pop(1)
    ready = kvconform("check", "--list", "--subject", "mlx-lm")
    if "KV2130" in ready.stderr:
        print("not run: no Python environment for mlx-lm\n" + ready.stderr)
        sys.exit(77)
    try:
        unittest.main(verbosity=2)
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
