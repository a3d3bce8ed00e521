"""transformers 5.24.0: Gemma 4 with shared layers and without per-layer inputs (hidden_size_per_layer_input 0) cannot run
more than one token: TypeError: 'NoneType' object is not subscriptable.
"""
import os
import sys

sys.setdlopenflags(os.RTLD_LAZY)  # the environment of the adapter has stand-ins for CUDA libraries
import torch  # noqa: E402
from transformers.models.gemma4 import Gemma4ForCausalLM, Gemma4TextConfig  # noqa: E402

config = Gemma4TextConfig(
    vocab_size=16, vocab_size_per_layer_input=16, hidden_size=16, intermediate_size=16, num_hidden_layers=2,
    num_attention_heads=1, num_key_value_heads=1, head_dim=8, hidden_size_per_layer_input=0, num_kv_shared_layers=1,
    layer_types=["full_attention", "full_attention"])
with torch.no_grad():
    print(Gemma4ForCausalLM(config).eval()(torch.tensor([[5, 9, 2, 7]])).logits.shape)
