"""transformers 5.24.0: Gemma4ForCausalLM.from_pretrained does not map the prefixes of multimodal checkpoints. It warns,
keeps random weights and goes on. Prints the largest difference of logits after loading the same weights under each
prefix; Gemma3nForCausalLM maps the first of the two.
"""
import os
import sys

sys.setdlopenflags(os.RTLD_LAZY)  # the environment of the adapter has stand-ins for CUDA libraries
import torch  # noqa: E402
from transformers.models.gemma4 import Gemma4ForCausalLM, Gemma4TextConfig  # noqa: E402

config = Gemma4TextConfig(
    vocab_size=16, vocab_size_per_layer_input=16, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
    num_attention_heads=1, num_key_value_heads=1, head_dim=8, hidden_size_per_layer_input=4, num_kv_shared_layers=0,
    layer_types=["full_attention"])
tokens = torch.tensor([[5, 9, 2, 7]])
with torch.no_grad():
    model = Gemma4ForCausalLM(config).eval()
    for prefix in ("model.", "model.language_model.", "language_model.model."):
        weights = {name.replace("model.", prefix, 1): tensor for name, tensor in model.model.state_dict(prefix="model.").items()}
        loaded = Gemma4ForCausalLM.from_pretrained(None, config=config, state_dict=weights).eval()
        print(prefix, float((loaded(tokens).logits - model(tokens).logits).abs().max()))
