"""Hugging Face transformers behind the subject protocol: Gemma3nForCausalLM and Gemma4ForCausalLM with the caches that
generate() uses, in eager mode on the CPU.

Configs and tensors are handed on as they are (from_pretrained maps the names). Where rows take unequal numbers of tokens,
the shorter ones are padded on the left of the call, with attention_mask and position_ids as generate() makes them.
README.md has the capabilities and why the others are missing.

    transformers_adapter.py [WORD,WORD,…]   eager or sdpa; dynamic, recording or static; all or last; float32 or bfloat16
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
transformers.utils.logging.disable_progress_bar()

WORDS = (sys.argv[1:] + [""])[0].split(",")
ATTENTION = "sdpa" if "sdpa" in WORDS else "eager"
CACHE = next((word for word in ("recording", "static") if word in WORDS), "dynamic")
LOGITS = "last" if "last" in WORDS else "all"  # last: those of the last token by themselves, as generate() wants them
DTYPE = "bfloat16" if "bfloat16" in WORDS else "float32"
CLASSES = {"gemma3n_text": (Gemma3nTextConfig, Gemma3nForCausalLM),
           "gemma4_text": (Gemma4TextConfig, Gemma4ForCausalLM)}


def keeps_everything(config):
    """Found by the harness and shown without it (VERDICTS.md): refused since, so that other findings are seen."""
    return CACHE == "dynamic" and config.sliding_window == 1 and "sliding_attention" in config.layer_types


def ends_in_a_type_error(config):
    """The same, for more than one token; only a forward that is asked for hidden states too goes through."""
    return config.model_type == "gemma4_text" and config.num_kv_shared_layers and not config.hidden_size_per_layer_input


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

    def forward(self, tokens, mask, wants_trace, **inputs):
        """Computes the last columns of mask (1: a token, 0: padding), as many as the longest of the rows `tokens` has."""
        width = max(len(row) for row in tokens)
        ids = torch.zeros(len(tokens), width, dtype=torch.long)
        for row, new in zip(ids, tokens):
            row[width - len(new):] = torch.tensor(new, dtype=torch.long)
        if not bool(mask.all()):  # as generate() makes them
            inputs["attention_mask"] = mask
            inputs["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)[:, -width:]
        if ends_in_a_type_error(self.config):
            inputs["output_hidden_states"] = True
        self.taken = [] if wants_trace else None
        logits = self.network(input_ids=ids, **(inputs if LOGITS == "all" else with_copied_cache(inputs))).logits
        taken, self.taken = self.taken or [], None
        if LOGITS == "last":
            logits[:, -1:] = self.network(input_ids=ids, logits_to_keep=1, **inputs).logits

        def rows(array):
            array = array.float().numpy()
            return [array[r, width - len(new):] for r, new in enumerate(tokens)]

        def streams_last(array):  # those of AltUp: [streams, rows, positions, hidden]
            return array.permute(1, 2, 0, 3) if array.ndim == 4 else array

        return Computed(rows(logits), [(name, rows(streams_last(array))) for name, array in taken])

    def score(self, tokens, wants_trace):
        return self.forward(tokens, mask_of(tokens), wants_trace, use_cache=False)

    def window(self):
        """0: no layer has one."""
        return self.config.sliding_window if "sliding_attention" in self.config.layer_types else 0

    def open(self, batch, capacity):
        if self.config.__dict__.get("use_bidirectional_attention") == "all":
            refuse("unsupported", "a model that looks both ways has no cache")
        if keeps_everything(self.config):
            refuse("unsupported", "known: a dynamic cache with a window of 1 keeps everything")
        return TorchSession(self, batch, capacity)


def with_copied_cache(inputs):
    return {name: copy.deepcopy(value) if name == "cache" else value for name, value in inputs.items()}


def mask_of(tokens):
    """Padding on the left, as generate() does it: [rows, longest row]."""
    width = max(len(row) for row in tokens)
    return torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in tokens], dtype=torch.long)


def is_cropped_before(layer, count):
    """Has a sliding layer that records the past lost what the next window needs after a crop by `count`?"""
    if not getattr(layer, "is_sliding", False) or not layer.is_initialized:
        return False
    needed = min(layer.sliding_window - 1, layer.get_seq_length() - count)
    return layer.keys.shape[-2] - count < needed


class TorchSession(Session):
    """The rows of a cache have its slots in common. What a slot is to a row says mask [rows, slots]: 1 a token, 0 padding,
    before the row's first token or, where rows took unequal numbers of tokens, anywhere. The library lets nobody see
    padding, but its sliding windows and caches count slots: see crowded()."""

    def __init__(self, model, batch, capacity):
        super().__init__(model, batch, capacity)
        if CACHE == "static":
            self.cache = StaticCache(config=model.config, max_cache_len=max(1, capacity))
        else:
            self.cache = DynamicCache(config=model.config)
            if CACHE == "recording":
                self.cache.activate_past_recording()
        self.mask = mask_of([[]] * batch)

    def crowded(self, mask, first):
        """For each row: does padding push a token out of the window of a slot from `first` on, where a token is?"""
        window = self.model.window()
        if not window:
            return [False] * len(self.lengths)
        seen = torch.nn.functional.pad(mask.cumsum(-1), (window, 0))  # seen[:, window + s]: tokens up to slot s
        upto, before = seen[:, window + first:], seen[:, first:-window]
        return (mask[:, first:].bool() & (upto - before < upto.clamp(max=window))).any(-1).tolist()

    def _extend(self, tokens, wants_trace):
        mask = torch.cat([self.mask, mask_of(tokens)], dim=1)
        if CACHE == "static" and mask.shape[1] > self.capacity:
            refuse("unsupported", "a static cache has no room for padding beyond the capacity")
        if any(self.crowded(mask, self.mask.shape[1])):
            refuse("unsupported", "rows of unequal length: padding inside a window, which counts padding as tokens")
        if CACHE == "recording" and self.mask.shape[1]:  # an empty cache cannot be cropped: scripts/
            self.cache.crop(0)  # as assisted generation does after each step: what is recorded is so until then
        computed = self.model.forward(tokens, mask, wants_trace, cache=self.cache, use_cache=True)
        self.mask = mask
        return computed

    def _rewind(self, lengths):
        if not any(lengths):
            self.cache.reset()
            self.mask = self.mask[:, :0]
        elif lengths != self.lengths:
            self.cut(lengths)

    def cut(self, lengths):
        """The slots that no row keeps are cropped, the others that a row gives up become padding of that row."""
        mask = self.mask * (self.mask.cumsum(-1) <= torch.tensor(lengths)[:, None])
        kept = int(mask.any(0).nonzero().max()) + 1
        count = mask.shape[1] - kept
        next_token = torch.nn.functional.pad(mask[:, :kept], (0, 1), value=1)
        for r, crowded in enumerate(self.crowded(next_token, kept)):
            if crowded and lengths[r] < self.lengths[r]:
                beyond = self.longest[r] > self.model.window() and self.longest[r] - lengths[r] > Engine.MARGIN
                refuse("invalid" if beyond else "unsupported", "rows are rewound by unequal numbers in a sliding window")
        if count:
            self.crop(count)
        self.mask = mask[:, :kept]

    def crop(self, count):
        if CACHE == "static" and not self.cache.is_croppable:
            refuse("unsupported", "a static cache larger than the window cannot be cropped")
        if CACHE == "recording" and any(is_cropped_before(layer, count) for layer in self.cache.layers):
            refuse("unsupported", "known: a second crop finds too few keys, and takes them for enough")
        cropped = copy.deepcopy(self.cache)  # a crop that fails has cropped the layers before
        try:
            cropped.crop(-count)
        except RuntimeError as error:
            wrapped = max(self.longest) > self.model.window() and len(self.lengths) == 1
            refuse("invalid" if wrapped else "unsupported", str(error).split(".")[0])
        self.cache = cropped

    def _reorder(self, rows):
        self.cache.reorder_cache(torch.tensor(rows))
        self.mask = self.mask[torch.tensor(rows)]

    def _fork(self):
        self.cache = copy.deepcopy(self.cache)

    def report(self):
        next_token = torch.nn.functional.pad(self.mask, (0, 1), value=1)
        if self.mask.shape[1] > self.capacity or any(self.crowded(next_token, self.mask.shape[1])):
            refuse("unsupported", "rows of unequal length: some of what the cache holds is padding")
        return super().report()

    def _held(self, layer):
        entry = self.cache.layers[layer]
        if entry.keys is None or not sum(self.lengths):
            return 0, 0
        size = entry.keys.numel() * entry.keys.element_size() + entry.values.numel() * entry.values.element_size()
        return int(self.mask[:, -entry.keys.shape[-2]:].sum()), size


class Engine:
    NAME = f"transformers ({ATTENTION}, {CACHE} cache{', last logits' * (LOGITS == 'last')})"
    FAMILIES = ["gemma3n_text", "gemma4_text"]
    CAPABILITIES = ["score", "cache", "chunked", "batch", "ragged", "rewind", "fork", "reorder", "cache_report", "trace"]
    MARGIN = 8 if CACHE == "recording" else 0
    GRANULARITY = 1
    dtype = DTYPE

    def version(self):
        return f"{transformers.__version__} with torch {torch.__version__}"

    def load(self, config, weights):
        return TorchModel(config, weights)


if __name__ == "__main__":
    serve(Engine())
