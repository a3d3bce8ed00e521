"""transformers 5.24.0: with sliding_window 1 a token sees itself alone; through a DynamicCache it sees all before it.

Prints the largest difference of each position between one forward without a cache and one token at a time.
"""
import os
import sys

sys.setdlopenflags(os.RTLD_LAZY)  # the environment of the adapter has stand-ins for CUDA libraries
import torch  # noqa: E402
from transformers import DynamicCache  # noqa: E402
from transformers.models.gemma3n import Gemma3nForCausalLM, Gemma3nTextConfig  # noqa: E402

torch.manual_seed(0)
config = Gemma3nTextConfig(
    vocab_size=16, vocab_size_per_layer_input=16, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
    num_attention_heads=1, num_key_value_heads=1, head_dim=8, hidden_size_per_layer_input=4, num_kv_shared_layers=0,
    laurel_rank=4, sliding_window=1, layer_types=["sliding_attention"], activation_sparsity_pattern=[0.0])
model = Gemma3nForCausalLM(config).eval()
tokens = torch.tensor([[5, 9, 2, 7]])
with torch.no_grad():
    whole = model(tokens, use_cache=False).logits
    cache = DynamicCache(config=config)
    steps = torch.cat([model(tokens[:, i:i + 1], cache=cache).logits for i in range(4)], 1)
print((whole - steps).abs().amax(-1))  # 0 everywhere would be right
