"""llama.cpp b11549 and Gemma 3n: what the file says and llama.cpp does not read. Two tokens through twelve layers of random
weights in the only sizes that it has (4 streams, 256 per-layer inputs, LAuReL rank 64): each line changes one thing in
the metadata, and prints by how much the logits move. 0 is right for the first line alone; the last one does move them.

    python scripts/llama_cpp_gemma3n.py       with the Python of the environment
"""
import ctypes
import tempfile

import numpy as np
from llama_cpp_tiny import Context, c, write

LAYERS, HIDDEN, WIDTH, EXTRA, STREAMS, RANK, VOCAB = 12, 16, 64, 256, 4, 64, 16
TYPES = [(i + 1) % 5 != 0 and i != LAYERS - 1 for i in range(LAYERS)]  # is it sliding?
SPARSE = [1.6448536] * 10 + [-np.inf] * 2  # the quantile of 0.95 in the first ten layers, as in the released sizes
METADATA = {
    "general.architecture": "gemma3n", "tokenizer.ggml.model": "none", "gemma3n.vocab_size": VOCAB,
    "gemma3n.context_length": 512, "gemma3n.embedding_length": HIDDEN, "gemma3n.block_count": LAYERS,
    "gemma3n.attention.head_count": 2, "gemma3n.attention.head_count_kv": 1, "gemma3n.attention.key_length": 8,
    "gemma3n.attention.value_length": 8, "gemma3n.attention.layer_norm_rms_epsilon": 1e-6,
    "gemma3n.attention.sliding_window": 4, "gemma3n.attention.sliding_window_pattern": TYPES,
    "gemma3n.attention.shared_kv_layers": 0, "gemma3n.feed_forward_length": WIDTH,
    "gemma3n.embedding_length_per_layer_input": EXTRA, "gemma3n.altup.active_idx": 0, "gemma3n.altup.num_inputs": STREAMS,
    "gemma3n.activation_sparsity_scale": SPARSE, "gemma3n.final_logit_softcapping": 30.0}
SHAPES = {
    "attn_norm": (HIDDEN,), "post_attention_norm": (HIDDEN,), "ffn_norm": (HIDDEN,), "post_ffw_norm": (HIDDEN,),
    "attn_q": (16, HIDDEN), "attn_k": (8, HIDDEN), "attn_v": (8, HIDDEN), "attn_output": (HIDDEN, 16), "attn_q_norm": (8,),
    "attn_k_norm": (8,), "ffn_gate": (WIDTH, HIDDEN), "ffn_up": (WIDTH, HIDDEN), "ffn_down": (HIDDEN, WIDTH),
    "inp_gate": (EXTRA, HIDDEN), "proj": (HIDDEN, EXTRA), "post_norm": (HIDDEN,), "altup_correct_scale": (HIDDEN,),
    "altup_correct_coef": (STREAMS, STREAMS), "altup_predict_coef": (STREAMS * STREAMS, STREAMS),
    "altup_router": (STREAMS, HIDDEN), "altup_router_norm": (HIDDEN,), "laurel_l": (RANK, HIDDEN), "laurel_r": (HIDDEN, RANK),
    "laurel_post_norm": (HIDDEN,)}
TOP = {"token_embd": (VOCAB, HIDDEN), "output_norm": (HIDDEN,), "per_layer_token_embd": (VOCAB, LAYERS * EXTRA),
       "per_layer_model_proj": (LAYERS * EXTRA, HIDDEN), "per_layer_proj_norm": (EXTRA,),
       "altup_proj": (STREAMS - 1, HIDDEN, HIDDEN), "altup_unembd_proj": (STREAMS - 1, HIDDEN, HIDDEN)}
random = np.random.default_rng(1)
TENSORS = {f"{n}.weight": random.normal(size=s) for n, s in TOP.items()}
TENSORS |= {f"blk.{i}.{n}.weight": random.normal(size=s) for i in range(LAYERS) for n, s in SHAPES.items()}


def logits(**changes):
    metadata = METADATA | {f"gemma3n.{key.replace('__', '.')}": value for key, value in changes.items()}
    with tempfile.NamedTemporaryFile() as file:
        write(file.name, metadata, TENSORS)
        model = c.lib.llama_model_load_from_file(file.name.encode(), c.lib.llama_model_default_params())
    context = Context(ctypes.c_void_p(model), cells=256, sequences=1, unified=False)
    assert context.decode(0, 0) == 0 and context.decode(0, 1) == 0
    return context.logits()


plain = logits()
for name, changes in [("the same again", {}), ("no sparsity", {"activation_sparsity_scale": [-np.inf] * LAYERS}),
                      ("active stream 1", {"altup__active_idx": 1}),
                      ("the last 2 layers share", {"attention__shared_kv_layers": 2}),
                      ("another window", {"attention__sliding_window": 1})]:
    print(f"{name:24} {np.abs(logits(**changes) - plain).max():.3g}")
