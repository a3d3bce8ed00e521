"""transformers 5.24.0: a DynamicCache with sliding layers to which nothing has been written cannot be cropped, not even by
nothing: AttributeError. One without sliding layers can.
"""
import os
import sys

sys.setdlopenflags(os.RTLD_LAZY)  # the environment of the adapter has stand-ins for CUDA libraries
from transformers import DynamicCache  # noqa: E402
from transformers.models.gemma3n import Gemma3nTextConfig  # noqa: E402

for layer_type in ("full_attention", "sliding_attention"):
    config = Gemma3nTextConfig(num_hidden_layers=1, num_kv_shared_layers=0, layer_types=[layer_type])
    DynamicCache(config=config).crop(0)
    print(layer_type, "can be cropped")
