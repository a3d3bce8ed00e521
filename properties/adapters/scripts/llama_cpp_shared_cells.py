"""llama.cpp b11549, one buffer for all sequences (kv_unified): cells that seq_cp gave to two sequences are not used again
when they have left the window of both. Two sequences with a window of 4 have a sliding cache of 256 cells; after a
common prompt of 300 tokens it is full of cells that nobody will ever see, and llama_decode finds no slot (returns 1).

    python scripts/llama_cpp_shared_cells.py      tokens that each sequence gets beyond the prompt, of 50 asked for
"""
from llama_cpp_tiny import Context, c, tiny_model

PROMPT, MORE = 300, 50
model = tiny_model("sfsf")


def served(copies):
    context = Context(model, cells=2048, sequences=2, unified=True)
    for position in range(PROMPT):
        assert context.decode(0, position) == 0
        assert copies or context.decode(1, position) == 0
    if copies:
        c.lib.llama_memory_seq_cp(context.memory, 0, 1, -1, -1)
    for position in range(PROMPT, PROMPT + MORE):
        for sequence in (0, 1):
            if context.decode(sequence, position) != 0:
                return position - PROMPT
    return MORE


print("each sequence was given the prompt:", served(copies=False))
print("the second one is a copy (seq_cp):  ", served(copies=True))
