"""Gemma 3n and Gemma 4 text models in float32 with numpy: weights, configuration, forward.

The engine of numpy_subject.py, which puts it behind the subject protocol. Written for reading, after
the published formulas: one row at a time, keys and values as plain arrays that are never changed in
place, so that a copy of references is a copy.
"""
import glob
import json
import math
import os
import statistics

import numpy as np

F = np.float32
MARGIN = 8  # positions behind the longest length that a sliding layer keeps for rewinds


class Refusal(Exception):
    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


def invalid(message):
    raise Refusal("invalid", message)


# ---- weights ------------------------------------------------------------------------------------

PREFIXES = ["model.language_model.", "language_model.model.", "model.", "language_model.", ""]


def read_safetensors(path):
    """name → float32 array: an 8-byte length, a JSON header, then the numbers."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[begin:end]
        if entry["dtype"] == "BF16":  # the upper half of a float32
            array = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(F)
        elif entry["dtype"] in ("F32", "F16"):
            array = np.frombuffer(raw, {"F32": "<f4", "F16": "<f2"}[entry["dtype"]]).astype(F)
        else:
            continue  # not a weight of the text model
        tensors[name] = array.reshape(entry["shape"])
    return tensors


def read_weights(path):
    files = sorted(glob.glob(os.path.join(path, "*.safetensors"))) if os.path.isdir(path) else [path]
    tensors = {}
    for file in files:
        tensors.update(read_safetensors(file))
    prefix = next((p for p in PREFIXES if p + "embed_tokens.weight" in tensors), None)
    if prefix is None:
        invalid(f"no embed_tokens.weight in {path}")
    # lm_head stands beside the model in files with a prefix.
    head = {"lm_head.weight": t for n, t in tensors.items() if n.endswith("lm_head.weight")}
    return head | {n[len(prefix):]: t for n, t in tensors.items() if n.startswith(prefix)}


# ---- configuration ------------------------------------------------------------------------------

DEFAULTS = {
    "gemma3n_text": dict(
        num_hidden_layers=35, hidden_size=2048, num_attention_heads=8, num_key_value_heads=2,
        head_dim=256, hidden_size_per_layer_input=256, num_kv_shared_layers=15, sliding_window=512,
        final_logit_softcapping=30.0, altup_num_inputs=4, altup_active_idx=0,
        altup_correct_scale=True, period=5),
    "gemma4_text": dict(
        num_hidden_layers=30, hidden_size=2304, num_attention_heads=8, num_key_value_heads=4,
        head_dim=256, global_head_dim=512, hidden_size_per_layer_input=256, num_kv_shared_layers=0,
        sliding_window=512, final_logit_softcapping=None, period=6),
}


class Layer:
    """What is special to one layer: who owns its keys and values, sizes, window, rotation."""


def rope_frequencies(rope, dim):
    kind, pairs = rope.get("rope_type", "default"), dim // 2
    if kind not in ("default", "linear", "proportional"):
        raise Refusal("unsupported", f"rope_type {kind}")
    f = F(1) / F(rope["rope_theta"]) ** (np.arange(0, dim, 2, dtype=F) / F(dim))
    if kind == "proportional":
        f[int(rope.get("partial_rotary_factor", 1.0) * dim) // 2:pairs] = 0
    return f / F(rope.get("factor", 1.0)) if kind != "default" else f


def ropes(c):
    if c.get("rope_parameters"):
        return c["rope_parameters"]
    if c["model_type"] == "gemma4_text":
        return {"sliding_attention": {"rope_theta": 1e4},
                "full_attention": {"rope_type": "proportional", "rope_theta": 1e6,
                                   "partial_rotary_factor": 0.25}}
    old = c.get("rope_scaling") or {}
    full = {"rope_theta": c.get("rope_theta", 1e6), **old}
    full["rope_type"] = old.get("rope_type", old.get("type", "default"))
    return {"sliding_attention": {"rope_theta": c.get("rope_local_base_freq", 1e4)},
            "full_attention": full}


def layer_types(c):
    count = c["num_hidden_layers"]
    types = list(c.get("layer_types") or
                 ["full_attention" if (i + 1) % c["period"] == 0 else "sliding_attention"
                  for i in range(count)])
    if c["model_type"] == "gemma4_text":
        types[-1] = "full_attention"
    return types


def owners(c, types):
    """Whose keys and values each layer reads: kv_sharing_map, or the tail of shared layers."""
    count = len(types)
    if c.get("kv_sharing_map") is not None:
        owner = c["kv_sharing_map"]
        ok = len(owner) == count and all(
            0 <= o <= i and owner[o] == o and types[o] == types[i] for i, o in enumerate(owner))
        return owner if ok else invalid(f"kv_sharing_map {owner} is not valid")
    first = count - c["num_kv_shared_layers"]
    last = {t: i for i, t in enumerate(types[:max(0, first)])}
    if not 1 <= first <= count or any(t not in last for t in types[first:]):
        invalid("a shared layer has no producer of its type")
    return [i if i < first else last[t] for i, t in enumerate(types)]


def plan(c):
    types, layers = layer_types(c), []
    owner = owners(c, types)
    for i, kind in enumerate(types):
        at, full = Layer(), kind == "full_attention"
        at.index, at.owner = i, owner[i]
        at.role = ("consumer" if owner[i] != i else
                   "producer" if i in owner[i + 1:] else "independent")
        at.window = 0 if full else c["sliding_window"]
        at.heads, at.kv_heads, at.dim = (
            c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"])
        at.values_from_keys = full and bool(c.get("attention_k_eq_v"))
        if c.get("per_layer_config") is not None:
            own = c["per_layer_config"].get(str(i), {})
            at.dim = own.get("head_dim", at.dim)
            at.kv_heads = own.get("num_key_value_heads", at.kv_heads)
        elif full and c["model_type"] == "gemma4_text":
            at.dim = c["global_head_dim"]
            if at.values_from_keys:
                at.kv_heads = c.get("num_global_key_value_heads") or at.kv_heads
        at.frequencies = rope_frequencies(ropes(c)[kind], at.dim)
        layers.append(at)
        if (at.dim, at.kv_heads) != (layers[at.owner].dim, layers[at.owner].kv_heads):
            invalid(f"layer {i} reads the keys of layer {at.owner}, which have another shape")
    return layers


# ---- the model ----------------------------------------------------------------------------------

def gelu(x):
    """½x(1 + tanh y) as x / (1 + exp(−2y)): for negative y the sum would cancel."""
    y = F(math.sqrt(2 / math.pi)) * (x + F(0.044715) * x * x * x)
    return x / (1 + np.exp(-2 * y))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def rotate(x, positions, frequencies):
    """Half split; x is [tokens, heads, dim]."""
    angle = positions.astype(F)[:, None, None] * frequencies
    cos, sin, half = np.cos(angle), np.sin(angle), x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


class Row:
    """One row of a batch: its length and, for each owner, (first position, keys, values)."""

    def __init__(self, start=0):
        self.start, self.length, self.longest, self.kv = start, 0, 0, {}


class Model:
    def __init__(self, config, path):
        if config.get("model_type") not in DEFAULTS:
            raise Refusal("unsupported", f"model_type {config.get('model_type')}")
        c = self.c = DEFAULTS[config["model_type"]] | config
        if c.get("hidden_activation", "gelu_pytorch_tanh") != "gelu_pytorch_tanh":
            raise Refusal("unsupported", f"hidden_activation {c['hidden_activation']}")
        self.layers, self.w = plan(c), read_weights(path)
        self.old = c["model_type"] == "gemma3n_text"
        self.eps, self.H = F(c.get("rms_norm_eps", 1e-6)), c["hidden_size"]
        self.E, self.N = c["hidden_size_per_layer_input"], c.get("altup_num_inputs", 1)
        self.vocab = self.w["embed_tokens.weight"].shape[0]
        self.both_ways = not self.old and c.get("use_bidirectional_attention") == "all"
        pattern = c.get("activation_sparsity_pattern")
        if pattern is None:
            count = len(self.layers)
            pattern = [0.95 if count > 10 and i < 10 else 0.0 for i in range(count)]
        self.cut = [F(statistics.NormalDist().inv_cdf(s)) if s > 0 else None for s in pattern]
        tied = c.get("tie_word_embeddings", True)
        self.head = self.w["embed_tokens.weight" if tied else "lm_head.weight"]

    def linear(self, name, x):
        y = x @ self.w[name + ".weight"].T
        return y + self.w[name + ".bias"] if name + ".bias" in self.w else y

    def rms(self, x, name=None):
        y = x * (np.mean(x * x, axis=-1, keepdims=True) + self.eps) ** F(-0.5)
        return y if name is None else y * self.w[name + ".weight"]

    def check(self, tokens):
        limit = self.vocab
        if self.E > 0 and not self.old:
            limit = min(limit, self.w["embed_tokens_per_layer.weight"].shape[0])
        for token in tokens:
            if not 0 <= token < limit:
                invalid(f"token {token} is outside the vocabulary of {limit}")

    def forward(self, tokens, row, trace):
        """Logits of new tokens of a row, [T, V]. The row takes their keys and values; a fresh row
        means no cache. `trace` collects (name, array) pairs."""
        if not tokens:
            return np.zeros((0, self.vocab), F)
        x = self.w["embed_tokens.weight"][tokens] * F(math.sqrt(self.H))
        trace.append(("embedding", x))
        per_layer = self.per_layer_inputs(tokens, x) if self.E > 0 else None
        h, published = self.streams(x) if self.old else x, {}
        layer = self.layer_3n if self.old else self.layer_4
        for at in self.layers:
            p = None if per_layer is None else per_layer[:, at.index]
            h = layer(at, h, p, lambda v, at=at: self.attention(at, v, row, published, trace))
            trace.append((f"layer.{at.index}.output", h.swapaxes(0, 1) if self.old else h))
        self.keep(row, len(tokens), published)
        out = self.rms(self.unembed(h) if self.old else h, "norm")
        trace.append(("final_norm", out))
        logits, cap = out @ self.head.T, self.c["final_logit_softcapping"]
        if cap is not None:
            logits = F(cap) * np.tanh(logits / F(cap))
        trace.append(("logits", logits))
        return logits

    def keep(self, row, count, published):
        """Sliding layers forget what neither a query nor a rewind within the margin can see."""
        row.length += count
        row.longest = max(row.longest, row.length)
        for at in self.layers:
            if at.owner != at.index:
                continue
            first, k, v = published[at.index]
            drop = max(0, row.longest - MARGIN - (at.window - 1) - first) if at.window else 0
            row.kv[at.index] = (first + drop, k[drop:], v[drop:])

    def attention(self, at, x, row, published, trace):
        count, name = len(x), f"layers.{at.index}.self_attn."
        index = row.length + np.arange(count)
        q = self.rms(self.linear(name + "q_proj", x).reshape(count, at.heads, at.dim), name + "q_norm")
        q = rotate(q, row.start + index, at.frequencies)
        if at.owner == at.index:
            k = self.linear(name + "k_proj", x).reshape(count, at.kv_heads, at.dim)
            v = k if at.values_from_keys else self.linear(name + "v_proj", x).reshape(k.shape)
            k, v = rotate(self.rms(k, name + "k_norm"), row.start + index, at.frequencies), self.rms(v)
            first, old_k, old_v = row.kv.get(at.index, (row.length, k[:0], v[:0]))
            published[at.index] = (first, np.concatenate([old_k, k]), np.concatenate([old_v, v]))
        first, k, v = published[at.owner]
        k, v = (np.repeat(a, at.heads // at.kv_heads, axis=1) for a in (k, v))
        scores = q.transpose(1, 0, 2) @ k.transpose(1, 2, 0)  # [heads, queries, keys], scale 1
        seen = self.visible(at, index[:, None], first + np.arange(len(k))[None, :])
        mixed = softmax(np.where(seen, scores, F(-np.inf))) @ v.transpose(1, 0, 2)
        out = self.linear(name + "o_proj", mixed.transpose(1, 0, 2).reshape(count, -1))
        trace.append((f"layer.{at.index}.attention", out))
        return out

    def visible(self, at, q, k):
        if self.both_ways:
            return abs(q - k) <= at.window // 2 + 1 if at.window else (q == q) & (k == k)
        return (k <= q) & (k > q - at.window) if at.window else k <= q

    def per_layer_inputs(self, tokens, x):
        table, shape = self.w["embed_tokens_per_layer.weight"], (len(tokens), len(self.layers), self.E)
        ids = [t if t < len(table) else 0 for t in tokens]
        u = (table[ids] * F(math.sqrt(self.E))).reshape(shape)
        q = (self.linear("per_layer_model_projection", x) * F(self.H ** -0.5)).reshape(shape)
        return (self.rms(q, "per_layer_projection_norm") + u) / F(math.sqrt(2))

    def mlp(self, at, x):
        name = f"layers.{at.index}.mlp."
        gate = self.linear(name + "gate_proj", x)
        if self.old and self.cut[at.index] is not None:
            mean, deviation = gate.mean(-1, keepdims=True), gate.std(-1, keepdims=True)
            gate = np.maximum(0, gate - mean - deviation * self.cut[at.index])
        return self.linear(name + "down_proj", gelu(gate) * self.linear(name + "up_proj", x))

    def per_layer_part(self, name, x, p):
        x = gelu(self.linear(name + "per_layer_input_gate", x)) * p
        return self.rms(self.linear(name + "per_layer_projection", x), name + "post_per_layer_input_norm")

    # Gemma 3n: h is [streams, tokens, hidden].

    def magnitude(self, x):
        return np.sqrt(np.mean(x * x, axis=-1, keepdims=True))

    def rescaled(self, y, target):
        return y * target / np.sqrt(np.maximum(np.mean(y * y, axis=-1, keepdims=True), F(1e-5)))

    def streams(self, x):
        t = self.magnitude(x)
        return np.stack([x] + [self.rescaled(self.linear(f"altup_projections.{s}", x), t)
                               for s in range(self.N - 1)])

    def unembed(self, h):
        t = self.magnitude(h[0])
        return np.mean(np.stack([h[0]] + [
            self.rescaled(self.linear(f"altup_unembed_projections.{s}", h[s + 1]), t)
            for s in range(self.N - 1)]), axis=0)

    def layer_3n(self, at, h, p, attention):
        n, a = f"layers.{at.index}.", self.c["altup_active_idx"]

        def modalities(x):
            return np.tanh(self.linear(n + "altup.modality_router",
                                       self.rms(x, n + "altup.router_norm") / F(self.H)))
        mix = self.linear(n + "altup.prediction_coefs", modalities(h[a]))
        mix = mix.reshape(-1, self.N, self.N)  # [tokens, stream out, stream in]
        predicted = h + np.einsum("tsr,rth->sth", mix, h)
        v = self.rms(predicted[a], n + "input_layernorm")
        left = self.linear(n + "laurel.linear_right", self.linear(n + "laurel.linear_left", v))
        left = v + self.rms(left, n + "laurel.post_laurel_norm")
        b = self.rms(attention(v), n + "post_attention_layernorm")
        g = (predicted[a] + b + left) / F(math.sqrt(2))
        active = g + self.rms(self.mlp(at, self.rms(g, n + "pre_feedforward_layernorm")),
                              n + "post_feedforward_layernorm")
        k = self.linear(n + "altup.correction_coefs", modalities(active)) + 1
        new = predicted + k.T[:, :, None] * (active - predicted[a])
        q = new[a]
        if self.c["altup_correct_scale"]:
            q = q * self.w[n + "altup.correct_output_scale"]
        if p is not None:
            new[1:] += self.per_layer_part(n, q, p)
        return new

    # Gemma 4: h is [tokens, hidden].

    def layer_4(self, at, h, p, attention):
        n = f"layers.{at.index}."
        h = h + self.rms(attention(self.rms(h, n + "input_layernorm")), n + "post_attention_layernorm")
        d = self.mlp(at, self.rms(h, n + "pre_feedforward_layernorm"))
        if self.c.get("enable_moe_block"):
            e = self.experts(n, h, self.rms(h, n + "pre_feedforward_layernorm_2"))
            d = (self.rms(d, n + "post_feedforward_layernorm_1") +
                 self.rms(e, n + "post_feedforward_layernorm_2"))
        h = h + self.rms(d, n + "post_feedforward_layernorm")
        if p is not None:
            h = h + self.per_layer_part(n, h, p)
        return h * self.w[n + "layer_scalar"]

    def experts(self, n, h, x):
        scaled = self.rms(h) * self.w[n + "router.scale"] * F(self.H ** -0.5)
        chances = softmax(self.linear(n + "router.proj", scaled))
        out = np.zeros_like(x)
        for t in range(len(x)):
            best = np.argsort(-chances[t], kind="stable")[:self.c["top_k_experts"]]
            for e in best:
                gate, up = np.split(self.w[n + "experts.gate_up_proj"][e] @ x[t], 2)
                weight = chances[t, e] / chances[t, best].sum() * self.w[n + "router.per_expert_scale"][e]
                out[t] += weight * (self.w[n + "experts.down_proj"][e] @ (gelu(gate) * up))
        return out
