"""llama.cpp b11549, one buffer for all sequences (kv_unified): a call that is cut into several ubatches forgets positions
that its first ubatch still sees, and computes wrong logits without a word.

llama_kv_cache::prepare places all ubatches on trial and then takes them back. On trial, the second one uses a cell that
has left the window by then, and apply_ubatch purges all positions of that sequence up to it; taken back are only the cells
that ubatches were placed in. The first ubatch then runs without the purged ones.

    python scripts/llama_cpp_purged_early.py      difference of each of the first 6 of 41 positions from the same sequence
                                                  alone in a context, without and with a sequence that came and went
"""
import numpy as np
from llama_cpp_tiny import Context, c, tiny_model

model = tiny_model("sfsf")  # the window is 4, an ubatch 32 tokens


def run(with_another):
    context = Context(model, cells=1024, sequences=2, unified=True)
    if with_another:
        assert context.decode(1, 0, 41) == 0  # cells 0 to 40
    assert context.decode(0, 0, 9) == 0
    if with_another:
        c.lib.llama_memory_seq_rm(context.memory, 1, 40, -1)  # cell 40 is free for position 9, before the others
    assert context.decode(0, 9) == 0
    if with_another:
        c.lib.llama_memory_seq_rm(context.memory, 1, -1, -1)  # cells 0 to 39: one ubatch, and 8 of the 9 tokens of the next
    assert context.decode(0, 10, 41) == 0
    return context.logits(41)


alone = run(False)
for name, other in (("alone", run(False)), ("after another sequence", run(True))):
    print(f"{name:24}", np.abs(alone - other).max(1)[:6].round(3))
