"""llama.cpp b11549: for which layouts of a tiny Gemma 4 model does it make a context, for which does it end the process?

Consumers read layer F - 1 if they are full and F - 2 if they are sliding, F being the first consumer: right for the
released sizes, where these are the last full and the last sliding owner; an assertion elsewhere.

    python scripts/llama_cpp_layouts.py       with the Python of the environment
"""
import os
import subprocess
import sys

# Types of the layers (s: sliding, f: full), and how many at the end share.
LAYOUTS = [("sfsf", 2), ("fssf", 1), ("fssf", 0), ("sffsf", 2), ("sffsf", 0), ("ff", 0), ("sf", 1)]

if len(sys.argv) > 1:
    from llama_cpp_tiny import c, tiny_model
    made = c.lib.llama_init_from_model(tiny_model(sys.argv[1], int(sys.argv[2])), c.default_context_params())
    sys.exit(print("a context" if made else "no context"))
for types, shared in LAYOUTS:
    run = subprocess.run([sys.executable, "-B", __file__, types, str(shared)], capture_output=True, text=True,
                         env=os.environ | {"GGML_NO_BACKTRACE": "1"})
    last = next((line for line in run.stderr.splitlines() if "GGML_ASSERT" in line), run.stderr[-200:])
    print(f"{types}, {shared} shared: {run.stdout.strip() or 'ended by ' + last[max(0, last.find('GGML_ASSERT')):]}")
