"""A Gemma 4 model with a few small layers of random weights, for the scripts about llama.cpp.

    model = tiny_model("sfsf", shared=2)      types of the layers (s: sliding, f: full), how many at the end share
"""
import ctypes
import pathlib
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import llama_cpp_library as c  # noqa: E402
from gguf_file import write  # noqa: E402
from gguf_gemma import FULL, SLIDING, convert  # noqa: E402

VOCAB, WINDOW = 16, 4
NORMS = ["input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"]
SHAPES = {"mlp.gate_proj": (16, 16), "mlp.up_proj": (16, 16), "mlp.down_proj": (16, 16), "self_attn.q_proj": (16, 16),
          "self_attn.o_proj": (16, 16), "self_attn.k_proj": (8, 16), "self_attn.v_proj": (8, 16),
          "self_attn.q_norm": (8,), "self_attn.k_norm": (8,), **{name: (16,) for name in NORMS}}


def tiny_model(types, shared=0):
    config = dict(model_type="gemma4_text", vocab_size=VOCAB, num_hidden_layers=len(types), num_attention_heads=2,
                  sliding_window=WINDOW, num_key_value_heads=1, head_dim=8, global_head_dim=8, intermediate_size=16,
                  hidden_size_per_layer_input=0, num_kv_shared_layers=shared,
                  layer_types=[FULL if t == "f" else SLIDING for t in types])
    random = np.random.default_rng(1)
    tensors = {"embed_tokens.weight": random.normal(size=(VOCAB, 16)), "norm.weight": random.normal(size=16)}
    tensors |= {f"layers.{i}.{n}.weight": random.normal(size=s) for i in range(len(types)) for n, s in SHAPES.items()}
    metadata, tensors, _ = convert(config, tensors)
    with tempfile.NamedTemporaryFile() as file:
        write(file.name, metadata, tensors)
        return ctypes.c_void_p(c.lib.llama_model_load_from_file(file.name.encode(), c.lib.llama_model_default_params()))


class Context:
    def __init__(self, model, cells, sequences, unified):
        p = c.default_context_params()
        p.n_ctx, p.n_batch, p.n_ubatch, p.n_seq_max = cells, 512, 32, sequences
        p.swa_full, p.kv_unified, p.flash_attn, p.type_k, p.type_v = False, unified, 0, c.F32, c.F32
        self.handle = ctypes.c_void_p(c.lib.llama_init_from_model(model, p))
        self.memory = ctypes.c_void_p(c.lib.llama_get_memory(self.handle))

    def decode(self, sequence, first, count=1):
        """Tokens at the positions from `first` on, made of their positions, in one call. What llama_decode returns."""
        integers, many = ctypes.c_int32, ctypes.c_int32 * count
        of = ctypes.pointer(integers(sequence))
        positions = range(first, first + count)
        return c.lib.llama_decode(self.handle, c.Batch(
            count, many(*(1 + p % 15 for p in positions)), None, many(*positions), many(*[1] * count),
            (ctypes.POINTER(integers) * count)(*[of] * count), (ctypes.c_int8 * count)(*[1] * count)))

    def logits(self, count=1):
        """Of the last call: an array [count, VOCAB]."""
        return np.ctypeslib.as_array(c.lib.llama_get_logits(self.handle), (count, VOCAB)).copy()
