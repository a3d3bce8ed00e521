"""llama.cpp b11549, a buffer for each sequence (its default): seq_cp notes that buffers are to be copied, and the next
llama_decode copies them. The state of the new sequence that is saved in between is made of what its buffer held before.

    python scripts/llama_cpp_copy_then_save.py    difference of the next logits from those of the sequence that was copied
"""
import ctypes

import numpy as np
from llama_cpp_tiny import Context, c, tiny_model

model = tiny_model("sfsf")


def continued(decode_before_saving, unified=False):
    context = Context(model, cells=1024, sequences=3, unified=unified)
    assert context.decode(0, 0, 20) == 0
    c.lib.llama_memory_seq_cp(context.memory, 0, 1, -1, -1)
    if decode_before_saving:
        assert context.decode(2, 0) == 0  # another sequence, any token
    state = np.empty(c.lib.llama_state_seq_get_size(context.handle, 1), np.uint8)
    pointer = state.ctypes.data_as(ctypes.c_void_p)
    assert c.lib.llama_state_seq_get_data(context.handle, pointer, ctypes.c_size_t(state.size), 1) == state.size
    restored = Context(model, cells=1024, sequences=3, unified=unified)
    assert c.lib.llama_state_seq_set_data(restored.handle, pointer, ctypes.c_size_t(state.size), 1) == state.size
    assert restored.decode(1, 20) == 0 and context.decode(0, 20) == 0
    return np.abs(restored.logits() - context.logits()).max()


print(f"saved at once              {continued(False):.3g}")
print(f"after a call for another   {continued(True):.3g}")
print(f"saved at once, kv_unified  {continued(False, True):.3g}")
