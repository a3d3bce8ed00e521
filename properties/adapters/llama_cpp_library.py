"""The C interface of llama.cpp (include/llama.h) through ctypes: what the adapter calls, and no more.

The library is the one in the environment, or the file or build folder that KVCONFORM_LLAMA_CPP names. Its two parameter
structs are passed by value and change from release to release; which of the known layouts a library has is read off the
default values that it fills in, and a library with another one is refused.
"""
import ctypes
import glob
import importlib.metadata
import importlib.util
import os
import sys
from ctypes import POINTER, Structure, c_bool, c_char_p, c_float, c_int8, c_int32, c_size_t, c_uint8, c_uint32, c_void_p

CHECKOUT = os.environ.get("KVCONFORM_LLAMA_CPP", "")
F32 = 0  # enum ggml_type
LEVEL_ERROR = 4  # enum ggml_log_level


def struct(name, *fields):
    """Fields as "type name name …"; what follows the last one is kept as it is."""
    types = {"ptr": c_void_p, "i32": c_int32, "u32": c_uint32, "f32": c_float, "bool": c_bool, "size": c_size_t}
    listed = [(word, types[kind]) for kind, *words in (f.split() for f in fields) for word in words]
    return type(name, (Structure,), {"_fields_": listed + [("rest", c_uint8 * 128)]})


ModelParams = struct(
    "ModelParams", "ptr devices overrides", "i32 n_gpu_layers split_mode load_mode")

CONTEXT = (
    "u32 n_ctx n_batch n_ubatch n_seq_max n_rs_seq n_outputs_max n_outputs_max_per_seq", "i32 n_threads n_threads_batch",
    "i32 ctx_type rope_scaling pooling attention flash_attn", "f32 rope_base rope_scale yarn_ext yarn_attn yarn_fast "
    "yarn_slow", "u32 yarn_ctx", "f32 defrag", "ptr cb_eval cb_eval_data", "i32 type_k type_v")
CONTEXT_END = ("ptr abort abort_data", "bool embeddings offload_kqv no_perf op_offload swa_full kv_unified")
CONTEXT_LAYOUTS = [struct("ContextParams", *CONTEXT, "size moe_cache_size", *CONTEXT_END),  # since October 2026
                   struct("ContextParams", *CONTEXT, *CONTEXT_END)]


class Batch(Structure):
    _fields_ = [("n_tokens", c_int32), ("token", POINTER(c_int32)), ("embd", c_void_p), ("pos", POINTER(c_int32)),
                ("n_seq_id", POINTER(c_int32)), ("seq_id", POINTER(POINTER(c_int32))), ("logits", POINTER(c_int8))]


class Tensor(Structure):
    """struct ggml_tensor up to its sources."""


Tensor._fields_ = [("type", c_int32), ("buffer", c_void_p), ("ne", ctypes.c_int64 * 4), ("nb", c_size_t * 4),
                   ("op", c_int32), ("op_params", c_int32 * 16), ("flags", c_int32), ("src", POINTER(Tensor) * 10)]

OnEval = ctypes.CFUNCTYPE(c_bool, POINTER(Tensor), c_bool, c_void_p)
OnLog = ctypes.CFUNCTYPE(None, c_int32, c_char_p, c_void_p)


def find_file():
    if os.path.isfile(CHECKOUT):
        return CHECKOUT
    if CHECKOUT:
        found = sorted(glob.glob(os.path.join(CHECKOUT, "**", "libllama.so*"), recursive=True))
    else:
        spec = importlib.util.find_spec("xllamacpp")
        found = glob.glob(os.path.join(os.path.dirname(spec.origin), "*.so")) if spec else []
    return found[0] if found else sys.exit(f"there is no llama.cpp library in {CHECKOUT or 'the environment'}")


FILE = find_file()
lib = ctypes.CDLL(FILE, mode=ctypes.RTLD_GLOBAL)
if not hasattr(lib, "ggml_get_name"):  # ggml is a library of its own in most builds; the loader has it already
    lib.ggml = ctypes.CDLL("libggml-base.so", mode=ctypes.RTLD_GLOBAL)

RESULTS = {
    "llama_model_default_params": ModelParams, "llama_model_load_from_file": c_void_p,
    "llama_init_from_model": c_void_p, "llama_get_memory": c_void_p, "llama_model_get_vocab": c_void_p,
    "llama_vocab_n_tokens": c_int32, "llama_get_logits": POINTER(c_float), "llama_decode": c_int32,
    "llama_memory_seq_rm": c_bool, "llama_memory_seq_pos_min": c_int32, "llama_memory_seq_pos_max": c_int32,
    "llama_state_seq_get_size": c_size_t, "llama_state_seq_get_data": c_size_t, "llama_state_seq_set_data": c_size_t,
    "llama_model_free": None, "llama_free": None, "llama_memory_clear": None, "llama_memory_seq_cp": None,
    "llama_log_set": None, "llama_backend_init": None}
for name, result in RESULTS.items():
    getattr(lib, name).restype = result


def default_context_params():
    for layout in CONTEXT_LAYOUTS:
        lib.llama_context_default_params.restype = layout
        p = lib.llama_context_default_params()
        if (p.n_batch, p.n_ubatch, p.type_k, p.type_v) == (2048, 512, 1, 1) and \
                (p.embeddings, p.offload_kqv, p.op_offload, p.swa_full, p.kv_unified) == (0, 1, 1, 1, 0):
            return p
    sys.exit(f"{FILE}: the parameters of a context are laid out in a way that this adapter does not know")


# ---- what the library says of itself -----------------------------------------------------------------------

said = []  # its last errors: it returns no more than "failed"


@OnLog
def on_log(level, text, _):
    if level == LEVEL_ERROR:
        said.append(text.decode(errors="replace").strip())
        del said[:-4]


lib.llama_log_set(on_log, None)
lib.llama_backend_init()


def last_errors():
    text = " / ".join(said)
    said.clear()
    return text or "no reason given"


def version():
    return f"in {FILE}" if CHECKOUT else "b" + importlib.metadata.version("xllamacpp").split(".")[-1]
