#!/usr/bin/env python3
"""The guide "Your engine under test in 30 minutes" in README.md does what it says: each of its blocks is run in an empty
folder in which `./kvconform` is the program and `properties` is this folder, one after the other.

    guide_test.py KVCONFORM CMAKE        exit 77: not run, a Python package is missing

    sh        is run and must end well
    console   each command ("$ …") must print the lines below it, in that order, … standing for anything; its exit code
              must be 0, or is what the next command, `echo $?`, shows
    yaml      is parsed, must have the form that GitHub Actions or GitLab asks for, and its commands are run on an engine
              that offers nothing yet (exit code 3): their options are right, and what they keep has been written
    cmake     is made part of a project with a plugin, which is built and tested

Another kind of block must be told to `RUNNERS`.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import yaml
except ImportError:
    print("not run: no yaml for Python (Debian: python3-yaml)")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
TITLE = "## Your engine under test in 30 minutes"
KVCONFORM = CMAKE = ""


class Wrong(Exception):
    """The guide says something that is not so."""


def guide():
    text = (HERE / "README.md").read_text()
    return text[text.index(TITLE):].split("\n## ")[0]


def blocks(text):
    """(language, content) of each fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)


def bash(script, folder):
    run = subprocess.run(["bash", "-c", script], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return run.returncode, run.stdout


def run_sh(text, folder):
    code, output = bash("set -euo pipefail\n" + text, folder)
    if code != 0:
        raise Wrong(f"exit code {code} of\n{text}\n{output}")


# ---- console ----------------------------------------------------------------------------------------------------------


def commands(text):
    """[command, lines that it prints], in order."""
    found = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found and not found[-1][1] and found[-1][0].endswith("\\"):
            found[-1] = (found[-1][0] + "\n" + line, [])
        elif line.strip():
            found[-1][1].append(" ".join(line.split()))
    return found


def expect_lines(lines, output, command):
    rest = iter(output.splitlines())
    for line in lines:
        pattern = re.compile(".*".join(map(re.escape, line.split("…"))))
        if not any(pattern.fullmatch(" ".join(printed.split())) for printed in rest):
            raise Wrong(f"\n$ {command}\ndoes not print, or not in this place:\n    {line}\nbut\n{output}")


def run_console(text, folder):
    code = 0
    for command, lines in commands(text):
        asks_for_code = command.strip() == "echo $?"
        if code != 0 and not asks_for_code:
            raise Wrong(f"exit code {code} before $ {command}\n{output}")
        last, (code, output) = code, bash(f"(exit {code})\n{command}", folder)
        if asks_for_code and output.strip() != " ".join(lines):
            raise Wrong(f"the exit code is {last}, not {lines}")
        expect_lines(lines, output, command)
    if code != 0:
        raise Wrong(f"exit code {code}\n{output}")


# ---- continuous integration -------------------------------------------------------------------------------------------


def github(jobs):
    """Its commands, and the files it keeps."""
    run, kept = [], []
    for job in jobs.values():
        if not isinstance(job["runs-on"], str):
            raise Wrong("runs-on is no name")
        for step in job["steps"]:
            if ("run" in step) == ("uses" in step):
                raise Wrong(f"a step either runs or uses something: {step}")
            run += [step["run"]] if "run" in step else []
            kept += [step["with"]["path"]] if step.get("uses", "").startswith("actions/upload-artifact@") else []
    return run, kept


def gitlab(jobs):
    run, kept = [], []
    for job in jobs.values():
        if not isinstance(job["image"], str):
            raise Wrong("image is no name")
        run += job["script"]
        kept += job["artifacts"]["paths"] + [job["artifacts"]["reports"]["junit"]]
    return run, kept


def run_yaml(text, folder):
    file = yaml.safe_load(text)
    run, kept = github(file["jobs"]) if "jobs" in file else gitlab(file)
    if not run or not kept:
        raise Wrong(f"runs nothing, or keeps nothing:\n{text}")
    root = pathlib.Path(tempfile.mkdtemp(dir=folder))
    (root / "kvconform").mkdir()
    (root / "kvconform" / "kvconform").symlink_to(KVCONFORM)
    toy = (HERE / "examples" / "toy_subject.py").read_text()
    nothing_yet = re.sub(r"^CAPABILITIES = .*$", "CAPABILITIES = []", toy, flags=re.M)
    for place in (root, root / "engine"):
        place.mkdir(exist_ok=True)
        (place / "engine.py").write_text(nothing_yet)
    for command in run:
        code, output = bash(command, root)
        if code != 3:
            raise Wrong(f"exit code {code} of {command}\n{output}")
    for name in kept:
        if not (root / name).exists():
            raise Wrong(f"{name} is kept, and is not there")


PROJECT = """cmake_minimum_required(VERSION 3.25)
project(engine C)
enable_testing()
add_library(my_engine MODULE toy_plugin.c)
target_include_directories(my_engine PRIVATE {include})
"""


def run_cmake(text, folder):
    """The toy offers nothing here, so that its test must be found, be run and fail: nothing was compared."""
    root = pathlib.Path(tempfile.mkdtemp(dir=folder))
    toy = (HERE / "examples" / "toy_plugin.c").read_text()
    (root / "toy_plugin.c").write_text(toy.replace('"score batch ragged"', '""'))
    (root / "CMakeLists.txt").write_text(PROJECT.format(include=HERE) + text)
    run_sh(f"'{CMAKE}' -S . -B build && '{CMAKE}' --build build", root)
    code, output = bash(f"PATH='{pathlib.Path(KVCONFORM).parent}':$PATH ctest --test-dir build --output-on-failure", root)
    if code == 0 or "nothing was compared" not in output:
        raise Wrong(f"exit code {code} of ctest\n{output}")


RUNNERS = {"sh": run_sh, "console": run_console, "yaml": run_yaml, "cmake": run_cmake}


class Guide(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="guide-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "kvconform").symlink_to(KVCONFORM)
        (self.folder / "properties").symlink_to(HERE)

    def run_blocks(self, text):
        for language, content in blocks(text):
            if language not in RUNNERS:
                raise Wrong(f"nobody knows how to run a block of \"{language}\":\n{content}")
            RUNNERS[language](content, self.folder)

    def test_every_block_does_what_the_guide_says(self):
        languages = [language for language, _ in blocks(guide())]
        self.assertEqual(guide().count("```"), 2 * len(languages))
        self.assertEqual(set(languages), set(RUNNERS))
        self.run_blocks(guide())

    def test_a_guide_that_is_wrong_is_caught(self):
        listed = "```console\n$ ./kvconform check --list\ncausality\n```\n"
        self.run_blocks(listed)
        python = next(content for language, content in blocks(guide()) if "jobs:" in content)
        for wrong in [
            "```sh\n./kvconform check --no-such-option\n```\n",
            "```sh\nfalse\ntrue\n```\n",
            "```console\n$ ./kvconform check --no-such-option\n```\n",
            "```console\n$ false\n$ true\n```\n",
            "```console\n$ false\n$ echo $?\n0\n```\n",
            listed.replace("causality", "casuality"),
            listed.replace("causality", "causality\ncache-independence"),
            "```fortran\nstop\n```\n",
            "```yaml\n" + python.replace("--report", "--raport") + "```\n",
            "```yaml\n" + python.replace("path: report", "path: reports") + "```\n",
            "```yaml\n" + python.replace("steps:", "stages:") + "```\n",
            "```cmake\nadd_test(NAME conformance COMMAND kvconform --no-such-option)\n```\n",
        ]:
            with self.subTest(wrong), self.assertRaises((Wrong, KeyError, yaml.YAMLError)):
                self.run_blocks(wrong)


if __name__ == "__main__":
    CMAKE = sys.argv.pop(2)
    KVCONFORM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
