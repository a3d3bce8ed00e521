"""transformers 5.24.0: a cache that records the past (activate_past_recording) is cropped by 1 and by 1 again. The second
crop finds too few keys in a sliding layer that is past its window, takes them for enough and returns; the next forward
ends in a RuntimeError about sizes. Cropped by 2 at once, it is right: prints the difference from a cache that never took
the two tokens.
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
    laurel_rank=4, sliding_window=4, layer_types=["sliding_attention"], activation_sparsity_pattern=[0.0])
model = Gemma3nForCausalLM(config).eval()
tokens = torch.tensor([[5, 9, 2, 7, 3, 8, 1, 4]])
with torch.no_grad():
    never = DynamicCache(config=config)
    model(tokens[:, :6], cache=never)
    expected = model(tokens[:, :1], cache=never).logits
    for steps in ([2], [1, 1]):
        cache = DynamicCache(config=config)
        cache.activate_past_recording()
        model(tokens, cache=cache)
        for step in steps:
            cache.crop(-step)
        print(steps, float((model(tokens[:, :1], cache=cache).logits - expected).abs().max()))
