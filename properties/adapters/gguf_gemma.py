"""Gemma checkpoints as GGUF: metadata and tensors under the names that llama.cpp reads.

    metadata, tensors = convert(config, tensors)

config: the text config of a Hugging Face config.json. tensors: name → float32 array, without the prefix (weights.py).
What the format has no room for raises Inexpressible; what it has room for is written, whether or not llama.cpp then
follows it. Weights stay as they are: neither family adds one to its norms.
"""
import math

import numpy as np

SLIDING, FULL = "sliding_attention", "full_attention"


class Inexpressible(Exception):
    pass


def demand(condition, message):
    if not condition:
        raise Inexpressible(message)


# ---- names -------------------------------------------------------------------------------------------------

TOP = {
    "embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight", "lm_head.weight": "output.weight",
    "embed_tokens_per_layer.weight": "per_layer_token_embd.weight",
    "per_layer_model_projection.weight": "per_layer_model_proj.weight",
    "per_layer_projection_norm.weight": "per_layer_proj_norm.weight"}

LAYER = {
    "input_layernorm.weight": "attn_norm.weight", "post_attention_layernorm.weight": "post_attention_norm.weight",
    "pre_feedforward_layernorm.weight": "ffn_norm.weight", "post_feedforward_layernorm.weight": "post_ffw_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight", "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight", "self_attn.o_proj.weight": "attn_output.weight",
    "self_attn.q_norm.weight": "attn_q_norm.weight", "self_attn.k_norm.weight": "attn_k_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight", "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight", "per_layer_input_gate.weight": "inp_gate.weight",
    "per_layer_projection.weight": "proj.weight", "post_per_layer_input_norm.weight": "post_norm.weight"}

LAYER_4 = LAYER | {
    "layer_scalar": "layer_output_scale.weight", "router.proj.weight": "ffn_gate_inp.weight",
    "router.scale": "ffn_gate_inp.scale", "router.per_expert_scale": "ffn_down_exps.scale",
    "experts.gate_up_proj": "ffn_gate_up_exps.weight", "experts.down_proj": "ffn_down_exps.weight",
    "pre_feedforward_layernorm_2.weight": "pre_ffw_norm_2.weight",
    "post_feedforward_layernorm_1.weight": "post_ffw_norm_1.weight",
    "post_feedforward_layernorm_2.weight": "post_ffw_norm_2.weight"}

LAYER_3N = LAYER | {
    "altup.correct_output_scale": "altup_correct_scale.weight",
    "altup.prediction_coefs.weight": "altup_predict_coef.weight",
    "altup.correction_coefs.weight": "altup_correct_coef.weight", "altup.modality_router.weight": "altup_router.weight",
    "altup.router_norm.weight": "altup_router_norm.weight", "laurel.linear_left.weight": "laurel_l.weight",
    "laurel.linear_right.weight": "laurel_r.weight", "laurel.post_laurel_norm.weight": "laurel_post_norm.weight"}


def renamed(tensors, layer_names):
    out = {}
    for name, tensor in tensors.items():
        if name in TOP:
            out[TOP[name]] = tensor
        elif name.startswith("layers."):
            _, index, rest = name.split(".", 2)
            demand(rest in layer_names, f"there is no name for the tensor {name}")
            out[f"blk.{index}.{layer_names[rest]}"] = tensor
        elif not name.startswith("altup_"):
            raise Inexpressible(f"there is no name for the tensor {name}")
    return out


# ---- what both families have -------------------------------------------------------------------------------


class Layers:
    """What the config says of each layer."""

    def __init__(self, config, pattern, shared):
        self.count = config["num_hidden_layers"]
        default = [FULL if (i + 1) % pattern == 0 else SLIDING for i in range(self.count)]
        self.types = list(config.get("layer_types") or default)
        self.owners = self.count - config.get("num_kv_shared_layers", shared)
        demand(0 < self.owners <= self.count, f"{self.count - self.owners} shared layers of {self.count}")
        demand(len(self.types) == self.count and set(self.types) <= {FULL, SLIDING}, f"layer_types {self.types}")

    def of(self, kind):
        return [i for i, each in enumerate(self.types) if each == kind]


def per_layer(values):
    return values[0] if len(set(values)) == 1 else list(values)


def common(arch, c, layers, tensors):
    vocab, hidden = tensors["token_embd.weight"].shape
    softcap = c.get("final_logit_softcapping", 30.0 if arch == "gemma3n" else None)
    demand(not c.get("attention_bias"), "attention_bias")
    demand(c.get("use_bidirectional_attention") != "all", "use_bidirectional_attention: all")
    demand(c.get("hidden_activation", "gelu_pytorch_tanh") == "gelu_pytorch_tanh", "another activation")
    demand(not c.get("kv_sharing_map"), "kv_sharing_map")
    return {
        "general.architecture": arch, "general.name": "kvconform", "tokenizer.ggml.model": "none",
        f"{arch}.vocab_size": vocab, f"{arch}.context_length": c.get("max_position_embeddings", 131072),
        f"{arch}.embedding_length": hidden, f"{arch}.block_count": layers.count,
        f"{arch}.attention.head_count": c.get("num_attention_heads", 8),
        f"{arch}.attention.layer_norm_rms_epsilon": float(c.get("rms_norm_eps", 1e-6)),
        f"{arch}.attention.sliding_window": c.get("sliding_window", 512),
        f"{arch}.attention.sliding_window_pattern": [kind == SLIDING for kind in layers.types],
        f"{arch}.attention.shared_kv_layers": layers.count - layers.owners,
        # Zero switches it off; without the key llama.cpp takes 30.
        f"{arch}.final_logit_softcapping": float(softcap or 0)}


def drop_dead(tensors, layers):
    """Projections of layers that read the keys and values of others."""
    dead = {f"blk.{i}.{name}.weight" for i in range(layers.owners, layers.count)
            for name in ("attn_k", "attn_v", "attn_k_norm")}
    return {name: tensor for name, tensor in tensors.items() if name not in dead}


# ---- Gemma 4 -----------------------------------------------------------------------------------------------


def heads_4(c, layers):
    """(key/value heads, head size) of each layer: from per_layer_config, or from the older keys."""
    heads, size, out = c.get("num_key_value_heads", 4), c.get("head_dim", 256), []
    of_full = c.get("num_global_key_value_heads") if c.get("attention_k_eq_v") else None
    for i, kind in enumerate(layers.types):
        if c.get("per_layer_config") is not None:
            own = c["per_layer_config"].get(str(i), {})
            out.append((own.get("num_key_value_heads", heads), own.get("head_dim", size)))
        elif kind == FULL:
            out.append((of_full or heads, c.get("global_head_dim") or 512))
        else:
            out.append((heads, size))
    return out


def one_size(sizes, layers, kind):
    found = {sizes[i] for i in layers.of(kind)}
    demand(len(found) < 2, f"{kind} layers with head sizes {sorted(found)}")
    return found.pop() if found else max(sizes)


def frequencies(rope, size):
    """What each angle of a full layer is divided by: the one place for factors and for parts of a head that stay."""
    kind, factor = rope.get("rope_type", "default"), float(rope.get("factor", 1.0))
    demand(kind in ("default", "linear", "proportional"), f"rope_type {kind}")
    rotated = size // 2
    if kind == "proportional":
        rotated = int(rope.get("partial_rotary_factor", 1.0) * size) // 2
    if kind == "default":
        factor = 1.0
    return np.array([factor] * rotated + [1e30] * (size // 2 - rotated), np.float32)


def plain_theta(rope, what):
    demand(rope.get("rope_type", "default") == "default" or rope["rope_type"] == "linear" and rope.get("factor") == 1,
           f"{rope.get('rope_type')} rotary embedding of {what}")
    return float(rope.get("rope_theta", 10000.0))


def gemma4(c, tensors):
    layers = Layers(c, 6, 0)
    layers.types[-1] = FULL  # as transformers reads any config
    tensors = drop_dead(renamed(tensors, LAYER_4), layers)
    out = common("gemma4", c, layers, tensors)
    heads, sizes = zip(*heads_4(c, layers))
    full, sliding = one_size(sizes, layers, FULL), one_size(sizes, layers, SLIDING)
    width = c.get("intermediate_size", 9216)
    wide = c.get("use_double_wide_mlp", False)
    default = {FULL: {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6}}
    ropes = c.get("rope_parameters") or default
    rows = c.get("vocab_size_per_layer_input", out["gemma4.vocab_size"])
    extra = c.get("hidden_size_per_layer_input", 256) or 0
    demand(not extra or rows == out["gemma4.vocab_size"], f"vocab_size_per_layer_input {rows}")
    out |= {
        "gemma4.attention.head_count_kv": list(heads), "gemma4.embedding_length_per_layer_input": extra,
        "gemma4.feed_forward_length": [width * (1 + (wide and i >= layers.owners)) for i in range(layers.count)],
        "gemma4.rope.freq_base": float(ropes[FULL].get("rope_theta", 1e6)),
        "gemma4.rope.freq_base_swa": plain_theta(ropes.get(SLIDING, {}), "sliding layers")}
    for end, size in (("", full), ("_swa", sliding)):
        out |= {f"gemma4.attention.key_length{end}": size, f"gemma4.attention.value_length{end}": size,
                f"gemma4.rope.dimension_count{end}": size}
    if c.get("enable_moe_block"):
        out |= {"gemma4.expert_count": c["num_experts"], "gemma4.expert_used_count": c["top_k_experts"],
                "gemma4.expert_feed_forward_length": c["moe_intermediate_size"]}
    tensors["rope_freqs.weight"] = frequencies(ropes[FULL], full)
    return out, tensors, layers


# ---- Gemma 3n ----------------------------------------------------------------------------------------------


def ropes_3n(c):
    ropes = c.get("rope_parameters") or {}
    full = {"rope_theta": c.get("rope_theta", 1e6), **(c.get("rope_scaling") or {}), **ropes.get(FULL, {})}
    sliding = {"rope_theta": c.get("rope_local_base_freq", 1e4), **ropes.get(SLIDING, {})}
    full.setdefault("rope_type", full.get("type", "default"))
    return full, sliding


def stacked(tensors, name):
    parts = sorted((int(key.split(".")[1]), t) for key, t in tensors.items() if key.startswith(name + "."))
    demand(parts, f"no {name}")
    return np.stack([t for _, t in parts])


def gemma3n(c, tensors):
    layers = Layers(c, 5, 15)
    named = renamed(tensors, LAYER_3N)
    named["altup_proj.weight"] = stacked(tensors, "altup_projections")
    named["altup_unembd_proj.weight"] = stacked(tensors, "altup_unembed_projections")
    rows, table = named["token_embd.weight"].shape[0], named["per_layer_token_embd.weight"]
    if len(table) < rows:  # ids beyond it read row 0; a table of the full length can say so
        named["per_layer_token_embd.weight"] = np.concatenate([table, np.repeat(table[:1], rows - len(table), 0)])
    out = common("gemma3n", c, layers, named)
    full, sliding = ropes_3n(c)
    demand(full["rope_type"] in ("default", "linear"), f"rope_type {full['rope_type']}")
    sparsity = c.get("activation_sparsity_pattern") or \
        [0.95 if i < 10 < layers.count else 0.0 for i in range(layers.count)]
    width = c.get("intermediate_size", 16384)
    demand(out["gemma3n.final_logit_softcapping"] > 0, "final_logit_softcapping: null")
    out |= {
        "gemma3n.attention.head_count_kv": c.get("num_key_value_heads", 2),
        "gemma3n.attention.key_length": c.get("head_dim", 256), "gemma3n.attention.value_length": c.get("head_dim", 256),
        "gemma3n.feed_forward_length": per_layer(width) if isinstance(width, list) else width,
        "gemma3n.embedding_length_per_layer_input": c.get("hidden_size_per_layer_input", 256),
        "gemma3n.altup.active_idx": c.get("altup_active_idx", 0),
        "gemma3n.altup.num_inputs": c.get("altup_num_inputs", 4),
        "gemma3n.activation_sparsity_scale": [quantile(s) for s in sparsity],
        "gemma3n.rope.freq_base": float(full["rope_theta"]),
        "gemma3n.rope.freq_base_swa": plain_theta(sliding, "sliding layers")}
    if full["rope_type"] == "linear":
        out |= {"gemma3n.rope.scaling.type": "linear", "gemma3n.rope.scaling.factor": float(full["factor"])}
    return out, named, layers


def quantile(share):
    """Of the normal distribution, by bisection of the error function; minus infinity where nothing is cut off."""
    low, high = -40.0, 40.0
    while share > 0 and high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if 0.5 * math.erfc(-middle / math.sqrt(2)) < share else (low, middle)
    return (low + high) / 2 if share > 0 else -math.inf


CONVERTERS = {"gemma3n_text": gemma3n, "gemma4_text": gemma4}


def convert(config, tensors):
    demand(config["model_type"] in CONVERTERS, f"model_type {config['model_type']}")
    return CONVERTERS[config["model_type"]](config, tensors)
