"""mlx-lm behind the subject protocol: its Gemma 3n and Gemma 4 text models and its own caches, called as its server does.

One row runs on the caches that make_prompt_cache makes, several rows on their batch counterparts: the first call pads
on the left, later ones pad on the right where rows get unequal numbers of tokens (prepare, finalize). Configs are
handed on as they are: what the library refuses is `unsupported`, what it ignores without a word is found. README.md
has the capabilities and why the others are missing.

    mlx_lm_adapter.py [float32|bfloat16|float16]
    KVCONFORM_MLX_LM=DIR   a checkout of mlx-lm to test in place of the installed release
"""
import contextlib
import copy
import json
import os
import shutil
import sys
import types

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy only copies here
if hasattr(os, "SCHED_BATCH"):
    # mlx hands each small operation to a thread of its own. As batch work the thread that wakes the other is not
    # interrupted by it, and a call takes 8 ms of CPU instead of 12.
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))

import mlx.core as mx  # noqa: E402
import numpy as np  # noqa: E402

from protocol import Computed, Model, Refusal, Session, refuse, serve  # noqa: E402
from weights import files, text_tensors  # noqa: E402


def find_library():
    """The folder of the package, made importable without its __init__, which loads tokenizers and a hub client."""
    checkout = os.environ.get("KVCONFORM_MLX_LM", "")
    for folder in [checkout] if checkout else sys.path:
        package = os.path.join(folder, "mlx_lm")
        if os.path.isfile(os.path.join(package, "models", "cache.py")):
            module = types.ModuleType("mlx_lm")
            module.__path__ = [package]
            sys.modules["mlx_lm"] = module
            return package
    sys.exit(f"there is no mlx_lm/models/cache.py in {checkout or 'the environment'}")


PACKAGE = find_library()
from mlx_lm.models import cache as kv  # noqa: E402
from mlx_lm.models import gemma3n, gemma4_text  # noqa: E402

DTYPE = (sys.argv[1:] + [""])[0] or "float32"
DTYPES = {"float32": mx.float32, "bfloat16": mx.bfloat16, "float16": mx.float16}


def numbers(array):
    return np.array(array.astype(mx.float32))


# ---- models ---------------------------------------------------------------------------------------------

# Fields that the library demands of a Gemma 3n config and that older files leave to their defaults.
NEEDED_3N = dict(
    hidden_size=2048, num_hidden_layers=35, intermediate_size=16384, num_attention_heads=8, num_key_value_heads=2,
    head_dim=256, rms_norm_eps=1e-6, vocab_size=262400, vocab_size_per_layer_input=262144, num_kv_shared_layers=15,
    sliding_window=512, max_position_embeddings=32768, final_logit_softcapping=30.0, hidden_size_per_layer_input=256,
    altup_num_inputs=4, altup_coef_clip=120.0, altup_correct_scale=True, altup_active_idx=0, laurel_rank=64)


def config_3n(config):
    """The old names of rotary fields, which are the ones that the library reads."""
    c = NEEDED_3N | config
    count = c["num_hidden_layers"]
    rope = c.get("rope_parameters") or {}
    full = rope.get("full_attention", {})
    c.setdefault("rope_theta", full.get("rope_theta", 1e6))
    c.setdefault("rope_local_base_freq", rope.get("sliding_attention", {}).get("rope_theta", 1e4))
    if full.get("rope_type", "default") != "default":
        c.setdefault("rope_scaling", {"type": full["rope_type"], **full})
    if c.get("layer_types") is None:
        c["layer_types"] = ["sliding_attention" if (i + 1) % 5 else "full_attention" for i in range(count)]
    if c.get("activation_sparsity_pattern") is None:
        c["activation_sparsity_pattern"] = [0.95 if i < 10 < count else 0.0 for i in range(count)]
    return c


class Recorder:
    """Stands in for a part of the model and keeps what it returned."""

    def __init__(self, part, keep):
        self.part, self.keep = part, keep

    def __getattr__(self, name):
        return getattr(self.part, name)

    def __call__(self, *args, **kwargs):
        result = self.part(*args, **kwargs)
        # A new array: the library goes on writing into its own.
        self.keep(mx.stop_gradient(result[0] if isinstance(result, tuple) else result))
        return result


class MlxModel(Model):
    def __init__(self, config, weights):
        if config["model_type"] not in ("gemma3n_text", "gemma4_text"):
            refuse("unsupported", f"model_type {config['model_type']}")
        self.is_3n = config["model_type"] == "gemma3n_text"
        if not self.is_3n and (config.get("layer_types") or ["full_attention"])[-1] != "full_attention":
            # transformers makes it full before it writes a config. As a sliding layer it would be wrong everywhere, and
            # hide what else is.
            refuse("unsupported", "mlx-lm takes the last layer's type as it stands")
        try:
            self.network = self.make(config)
            self.load(weights)
        except Refusal:
            raise
        except Exception as error:  # loud, and before anything is computed
            refuse("unsupported", f"mlx-lm cannot load this: {type(error).__name__}: {str(error)[:300]}")
        self.text = self.network.model.language_model if self.is_3n else self.network.model
        self.types = list(self.text.config.layer_types)
        self.owners = self.text.layer_idx_to_cache_idx if self.is_3n else self.text.previous_kvs
        self.vocab = self.text.config.vocab_size
        self.record()

    def make(self, config):
        if self.is_3n:
            return gemma3n.Model(gemma3n.ModelArgs.from_dict(
                {"model_type": "gemma3n", "text_config": config_3n(config)}))
        return gemma4_text.Model(gemma4_text.ModelArgs.from_dict(config))

    def load(self, weights):
        """As mlx_lm.utils.load_model does, after the names have the one prefix that the library expects."""
        tensors = {}
        for file in files(weights):
            tensors.update(mx.load(file, format="safetensors"))
        prefix = "model.language_model." if self.is_3n else "model."
        named = {name if name.startswith("lm_head.") else prefix + name: tensor.astype(DTYPES[DTYPE])
                 for name, tensor in text_tensors(tensors).items()}
        self.network.load_weights(list(self.network.sanitize(named).items()), strict=True)
        mx.eval(self.network.parameters())

    # Traces. Parts are replaced once, and record into what self.taken is at the time.

    def record(self):
        self.taken = None
        layers = self.text.layers
        for i in range(len(layers)):
            layers[i].self_attn.o_proj = Recorder(layers[i].self_attn.o_proj, self.keeper(f"layer.{i}.attention"))
            layers[i] = Recorder(layers[i], self.keeper(f"layer.{i}.output"))
        self.text.norm = Recorder(self.text.norm, self.keeper("final_norm"))

    def keeper(self, name):
        def keep(array):
            if self.taken is not None:
                self.taken.append((name, array))
        return keep

    def forward(self, tokens, caches, wants_trace, spans):
        """Rows of equal length in, spans[r] = (begin, end) of each row's real positions out."""
        self.taken = [] if wants_trace else None
        logits = numbers(self.network(mx.array(tokens), cache=caches))
        taken, self.taken = self.taken or [], None

        def rows(array):
            if array.ndim == 4:  # the streams of AltUp first: [streams, rows, positions, hidden]
                array = array.transpose(1, 2, 0, 3)
            array = numbers(array)
            return [array[r, begin:end] for r, (begin, end) in enumerate(spans)]

        cut = [logits[r, begin:end] for r, (begin, end) in enumerate(spans)]
        return Computed(cut, [(name, rows(array)) for name, array in taken])

    def score(self, tokens, wants_trace):
        """Unequal rows are padded on the right, where a causal model cannot see it (mlx_lm.evaluate does the same)."""
        longest = max(len(row) for row in tokens)
        padded = [row + [0] * (longest - len(row)) for row in tokens]
        return self.forward(padded, None, wants_trace, [(0, len(row)) for row in tokens])

    def open(self, batch, capacity):
        session = MlxSession(self, batch, capacity)
        session.clear()
        return session

    def restore(self, path):
        try:
            named = path + ".restored.safetensors"  # the library goes by the end of the name
            shutil.copyfile(path, named)
            try:
                caches, books = kv.load_prompt_cache(named, return_metadata=True)
                mx.eval([c.state for c in caches])
            finally:
                os.remove(named)
            books = json.loads(books["kvconform"])
        except (OSError, RuntimeError, ValueError, KeyError, TypeError, IndexError) as error:
            refuse("invalid", f"{path} holds no saved session: {error}")
        session = MlxSession(self, len(books["lengths"]), 0).with_books(books)
        session.caches = caches
        return session


# ---- sessions -------------------------------------------------------------------------------------------


class MlxSession(Session):
    def clear(self):
        self.caches = kv.make_prompt_cache(self.model.network)
        if len(self.lengths) > 1:
            self.caches = [c.merge([c] * len(self.lengths)) for c in self.caches]

    def _extend(self, tokens, wants_trace):
        counts = [len(row) for row in tokens]
        width = max(counts)
        if min(counts) == width:
            return self.model.forward(tokens, self.caches, wants_trace, [(0, width)] * len(tokens))
        if not any(self.lengths):
            return self.left_padded(tokens, width, wants_trace)
        return self.right_padded(tokens, max(2, width), wants_trace)

    def left_padded(self, tokens, width, wants_trace):
        self.clear()
        pads = [width - len(row) for row in tokens]
        for cache in self.caches:
            cache.prepare(left_padding=pads)
        padded = [[0] * n + row for n, row in zip(pads, tokens)]
        return self.model.forward(padded, self.caches, wants_trace, [(n, width) for n in pads])

    def right_padded(self, tokens, width, wants_trace):
        """Two positions at least: a rotating batch cache takes a single one only without padding."""
        counts = [len(row) for row in tokens]
        pads = [width - n for n in counts]
        for cache in self.caches:
            cache.prepare(lengths=counts, right_padding=pads)
        padded = [row + [0] * n for n, row in zip(pads, tokens)]
        computed = self.model.forward(padded, self.caches, wants_trace, [(0, n) for n in counts])
        for cache in self.caches:
            cache.finalize()
        mx.eval([c.state for c in self.caches])
        return computed

    def _rewind(self, lengths):
        back = {old - new for old, new in zip(self.lengths, lengths)}
        if back == {0}:
            return
        if not any(lengths) and (len(back) > 1 or not kv.can_trim_prompt_cache(self.caches)):
            return self.clear()
        if len(back) > 1:
            refuse("unsupported", "mlx-lm trims all rows of a batch by the same number")
        if not kv.can_trim_prompt_cache(self.caches):
            wrapped = max(self.longest) > self.model.text.config.sliding_window
            refuse("invalid" if wrapped and len(self.lengths) == 1 else "unsupported",
                   "mlx-lm trims a rotating cache only while it has seen fewer tokens than the window")
        kv.trim_prompt_cache(self.caches, back.pop())

    def _reorder(self, rows):
        if len(rows) > 1 and not all(c.empty() for c in self.caches):
            self.caches = [type(c.extract(0)).merge([c.extract(r) for r in rows]) for c in self.caches]

    def _fork(self):
        self.caches = copy.deepcopy(self.caches)

    def save(self, path):
        named = path + ".safetensors"  # the library appends it where it is missing
        kv.save_prompt_cache(named, self.caches, {"kvconform": json.dumps(self.books())})
        os.replace(named, path)

    def _held(self, layer):
        cache = self.caches[layer]
        if cache.empty():
            return 0, 0
        window = self.model.text.config.sliding_window
        sliding = self.model.types[layer] == "sliding_attention"
        return sum(min(n, window) if sliding else n for n in self.lengths), cache.nbytes


class Engine:
    NAME = "mlx-lm"
    FAMILIES = ["gemma3n_text", "gemma4_text"]
    CAPABILITIES = ["score", "cache", "chunked", "batch", "ragged", "rewind", "fork", "reorder", "save", "cache_report",
                    "trace"]
    MARGIN = 0  # a wrapped ring is not trimmed at all
    GRANULARITY = 512  # a cache grows by KVCache.step = 256 from wherever it is
    dtype = DTYPE

    def version(self):
        scope = {}
        with open(os.path.join(PACKAGE, "_version.py")) as file:
            exec(file.read(), scope)
        where = f" in {os.path.dirname(PACKAGE)}" if os.environ.get("KVCONFORM_MLX_LM") else ""
        return scope.get("__version__", "unknown") + where

    def load(self, config, weights):
        return MlxModel(config, weights)


if __name__ == "__main__":
    serve(Engine())
