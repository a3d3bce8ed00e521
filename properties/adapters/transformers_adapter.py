"""Hugging Face transformers behind the subject protocol: Gemma3nForCausalLM and Gemma4ForCausalLM with the caches that
generate() uses, in eager mode on the CPU.

Configs and tensors are handed on as they are (from_pretrained maps the names). Rows of unequal length are padded on the
left in the first call of a session, with attention_mask and position_ids as generate() makes them; later calls bring
the same number of tokens to every row, for the library has no padding in the middle. README.md has the capabilities and
why the others are missing.

    transformers_adapter.py [WORD,WORD,…]   eager or sdpa; dynamic, recording or static; float32 or bfloat16
"""
import copy
import logging
import os
import sys

# torch's wheel is linked against CUDA libraries of which a CPU calls none: bind functions when they are first called.
sys.setdlopenflags(os.RTLD_LAZY)
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from transformers import DynamicCache, StaticCache  # noqa: E402
from transformers.models.gemma3n import Gemma3nForCausalLM, Gemma3nTextConfig  # noqa: E402
from transformers.models.gemma4 import Gemma4ForCausalLM, Gemma4TextConfig  # noqa: E402

from protocol import Computed, Model, Session, refuse, serve  # noqa: E402
from weights import files  # noqa: E402

torch.set_num_threads(1)
torch.set_grad_enabled(False)
logging.disable(logging.WARNING)

WORDS = (sys.argv[1:] + [""])[0].split(",")
ATTENTION = "sdpa" if "sdpa" in WORDS else "eager"
CACHE = next((word for word in ("recording", "static") if word in WORDS), "dynamic")
DTYPE = "bfloat16" if "bfloat16" in WORDS else "float32"
CLASSES = {"gemma3n_text": (Gemma3nTextConfig, Gemma3nForCausalLM),
           "gemma4_text": (Gemma4TextConfig, Gemma4ForCausalLM)}


def known_to_break(config):
    """Found by the harness and shown without it (VERDICTS.md): refused since, so that other findings are seen."""
    if config.model_type == "gemma4_text" and not config.hidden_size_per_layer_input and config.num_kv_shared_layers:
        return "shared layers without per-layer inputs end in a TypeError"
    if CACHE != "static" and config.sliding_window == 1 and "sliding_attention" in config.layer_types:
        return "a dynamic cache with a window of 1 keeps everything"
    return ""


def owners_of(config):
    """As the library's attention layers decide: the last layer of the type among those that own keys."""
    types, first = config.layer_types, config.num_hidden_layers - config.num_kv_shared_layers
    last = {kind: i for i, kind in enumerate(types[:first])}
    return [i if i < first else last[kind] for i, kind in enumerate(types)]


class TorchModel(Model):
    def __init__(self, config, weights):
        if config["model_type"] not in CLASSES:
            refuse("unsupported", f"model_type {config['model_type']}")
        config_class, model_class = CLASSES[config["model_type"]]
        tensors = {}
        for file in files(weights):
            tensors.update(load_file(file))
        try:  # what it refuses, it refuses loudly and before anything is computed
            self.config = config_class(**config)
            self.network = model_class.from_pretrained(
                None, config=self.config, state_dict=tensors, dtype=getattr(torch, DTYPE), attn_implementation=ATTENTION,
                experts_implementation="eager")  # the others ask for sizes that are multiples of 16 bytes
            self.owners = owners_of(self.config)
        except Exception as error:
            refuse("unsupported", f"transformers cannot load this: {type(error).__name__}: {str(error)[:300]}")
        if known_to_break(self.config):
            refuse("unsupported", "known: " + known_to_break(self.config))
        self.network.eval()
        self.vocab = self.config.vocab_size
        self.taken = None
        self.hook()

    def hook(self):
        text = self.network.model

        def keep(part, name):
            def hook(_, __, output):
                if self.taken is not None:
                    self.taken.append((name, output[0] if isinstance(output, tuple) else output))
            part.register_forward_hook(hook)

        keep(text.embed_tokens, "embedding")
        for i, layer in enumerate(text.layers):
            keep(layer.self_attn, f"layer.{i}.attention")
            keep(layer, f"layer.{i}.output")
        keep(text.norm, "final_norm")

    def forward(self, tokens, wants_trace, spans, **inputs):
        """Rows of equal length in, spans[r] = (begin, end) of each row's real positions out."""
        self.taken = [] if wants_trace else None
        logits = self.network(input_ids=torch.tensor(tokens), **inputs).logits.float().numpy()
        taken, self.taken = self.taken or [], None

        def rows(array):
            if array.ndim == 4:  # the streams of AltUp first: [streams, rows, positions, hidden]
                array = array.permute(1, 2, 0, 3)
            array = array.float().numpy()
            return [array[r, begin:end] for r, (begin, end) in enumerate(spans)]

        cut = [logits[r, begin:end] for r, (begin, end) in enumerate(spans)]
        return Computed(cut, [(name, rows(array)) for name, array in taken])

    def padded(self, tokens, wants_trace, **inputs):
        """Padding on the left, as generate() does it. Returns what was computed, and the mask."""
        width = max(len(row) for row in tokens)
        pads = [width - len(row) for row in tokens]
        mask = torch.tensor([[0] * n + [1] * (width - n) for n in pads])
        if any(pads):
            inputs["attention_mask"] = mask
            inputs["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)
        rows = [[0] * n + row for n, row in zip(pads, tokens)]
        return self.forward(rows, wants_trace, [(n, width) for n in pads], **inputs), mask

    def score(self, tokens, wants_trace):
        if not all(tokens):
            refuse("unsupported", "a row that is nothing but padding")
        return self.padded(tokens, wants_trace, use_cache=False)[0]

    def open(self, batch, capacity):
        if self.config.__dict__.get("use_bidirectional_attention") == "all":
            refuse("unsupported", "a model that looks both ways has no cache")
        session = TorchSession(self, batch, capacity)
        session.clear()
        return session


class TorchSession(Session):
    def clear(self):
        config = self.model.config
        if CACHE == "static":
            self.cache = StaticCache(config=config, max_cache_len=max(1, self.capacity))
        else:
            self.cache = DynamicCache(config=config)
            if CACHE == "recording":
                self.cache.activate_past_recording()
        self.mask = None

    def _extend(self, tokens, wants_trace):
        past = sum(self.lengths)
        counts = {len(row) for row in tokens}
        if len(counts) > 1 and (past or 0 in counts):
            refuse("unsupported", "padding anywhere but before the first token of a row")
        if not past:
            width = max(counts)
            if CACHE == "static" and width > self.capacity:
                refuse("invalid", "the padded rows exceed the capacity")
            computed, self.mask = self.model.padded(tokens, wants_trace, cache=self.cache, use_cache=True)
            return computed
        width, inputs = counts.pop(), {}
        mask = torch.cat([self.mask, torch.ones(len(tokens), width, dtype=self.mask.dtype)], dim=1)
        if not bool(mask.all()):
            if CACHE == "static" and mask.shape[1] > self.capacity:
                refuse("unsupported", "a static cache has no room for padding beyond the capacity")
            inputs = {"attention_mask": mask, "position_ids": (mask.cumsum(-1) - 1).clamp(min=0)[:, -width:]}
        spans = [(0, width)] * len(tokens)
        computed = self.model.forward(tokens, wants_trace, spans, cache=self.cache, use_cache=True, **inputs)
        self.mask = mask
        return computed

    def _rewind(self, lengths):
        back = {old - new for old, new in zip(self.lengths, lengths)}
        if back == {0}:
            return
        if not any(lengths):
            return self.clear()
        if len(back) > 1:
            refuse("unsupported", "transformers crops all rows of a batch by the same number")
        cropped, count = copy.deepcopy(self.cache), back.pop()  # a crop that fails has cropped the layers before
        if CACHE == "static" and not all(layer.is_croppable for layer in cropped.layers):
            refuse("unsupported", "a static cache larger than the window cannot be cropped")
        try:
            cropped.crop(-count)
        except RuntimeError as error:
            wrapped = max(self.longest) > (self.model.config.sliding_window or 0) and len(self.lengths) == 1
            refuse("invalid" if wrapped else "unsupported", str(error).split(".")[0])
        self.cache, self.mask = cropped, self.mask[:, :-count]

    def _reorder(self, rows):
        if sum(self.lengths):
            self.cache.reorder_cache(torch.tensor(rows))
            self.mask = self.mask[torch.tensor(rows)]

    def _fork(self):
        self.cache = copy.deepcopy(self.cache)

    def _held(self, layer):
        entry = self.cache.layers[layer]
        if entry.keys is None or not sum(self.lengths):
            return 0, 0
        sliding = self.model.config.layer_types[layer] == "sliding_attention"
        kept = entry.keys.shape[-2] if sliding else max(self.lengths)
        size = entry.keys.numel() * entry.keys.element_size() + entry.values.numel() * entry.values.element_size()
        return sum(min(n, kept) for n in self.lengths), size


class Engine:
    NAME = f"transformers ({ATTENTION}, {CACHE} cache)"
    FAMILIES = ["gemma3n_text", "gemma4_text"]
    CAPABILITIES = ["score", "cache", "chunked", "batch", "ragged", "rewind", "fork", "reorder", "cache_report", "trace"]
    MARGIN = 0
    GRANULARITY = 1
    dtype = DTYPE

    def version(self):
        return f"{transformers.__version__} with torch {torch.__version__}"

    def load(self, config, weights):
        return TorchModel(config, weights)


if __name__ == "__main__":
    serve(Engine())
