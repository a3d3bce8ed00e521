"""Sessions of llama.cpp that are longer than its sliding cache, which is 256 cells at least: a check with short prompts does not
see one. Random calls, rewinds, reorderings, forks, saves and restores, each call compared with the tokens scored anew.
Sessions are saved after a call, not after a fork or a reordering (scripts/llama_cpp_copy_then_save.py).

    llama_cpp_long_sessions.py CHECKPOINT STEPS SEED [WORD,WORD,…]      the words of llama_cpp_adapter.py

Prints the largest difference, the longest row and how many rewinds were refused.
"""
import json
import os
import random
import sys
import tempfile

CHECKPOINT, STEPS, SEED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
sys.argv[1:] = sys.argv[4:]
import numpy as np  # noqa: E402

import llama_cpp_adapter as adapter  # noqa: E402
from protocol import Refusal  # noqa: E402

adapter.UBATCH = 32  # calls are cut up, and the cache need not hold more than 256 positions
ROWS, CAPACITY, SESSIONS = 2, 500, 3
draw = random.Random(SEED)
with open(os.path.join(CHECKPOINT, "config.json")) as file:
    model = adapter.LlamaModel(json.load(file), CHECKPOINT)
live = [(model.open(ROWS, CAPACITY), [[] for _ in range(ROWS)])]
worst = longest = refused = 0


def extend(session, rows):
    global worst, longest
    new = [[draw.randrange(model.vocab) for _ in range(draw.choice([0, 1, 1, 5, 150]))] for _ in rows]
    new = [tokens if len(row) + len(tokens) <= CAPACITY else [] for row, tokens in zip(rows, new)]
    logits = session.extend(new, False).logits
    for row, tokens, seen in zip(rows, new, logits):
        row += tokens
        longest = max(longest, len(row))
        if tokens:
            again = model.score([row], False).logits[0][-len(tokens):]
            worst = max(worst, float(np.abs(again - seen).max()))


def rewind(session, rows):
    global refused
    lengths = [max(0, len(row) - draw.choice([0, 1, 3, 30, 400])) for row in rows]
    try:
        session.rewind(lengths)
    except Refusal:
        refused += 1
        return
    for row, length in zip(rows, lengths):
        del row[length:]


def reorder(session, rows):
    order = [draw.randrange(ROWS) for _ in rows]
    session.reorder(order)
    rows[:] = [list(rows[r]) for r in order]


def keep(session, rows):
    live.append((session, [list(row) for row in rows]))
    del live[:-SESSIONS]


def fork(session, rows):
    keep(session.fork(), rows)


def save(session, rows):
    extend(session, rows)
    with tempfile.NamedTemporaryFile() as file:
        session.save(file.name)
        keep(model.restore(file.name), rows)


for _ in range(STEPS):
    draw.choice([extend, extend, extend, rewind, reorder, fork, save])(*draw.choice(live))
print(f"{worst:.2g} {longest} {refused}")
