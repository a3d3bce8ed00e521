"""llama.cpp behind the subject protocol: its Gemma 4 or its Gemma 3n model, through the C interface; each checkpoint is
written as a GGUF file of float32 first.

A session is one sequence a row in a llama_context, a call one llama_decode; rewinds are seq_rm, forks and reorderings
seq_cp, saved sessions the state of each sequence. What llama.cpp refuses is `unsupported`; what it ignores without a
word is found. README.md has the capabilities and why the others are missing.

    llama_cpp_adapter.py [WORD,WORD,…]   gemma4 or gemma3n; float32 or float16; streams, unified or crowded;
                                         swa or swa-full; ubatch-512 or ubatch-2
    KVCONFORM_LLAMA_CPP=PATH             libllama.so, or a build folder that has it, to test in place of the release
"""
import ctypes
import json
import math
import os
import sys
import tempfile

import numpy as np

import llama_cpp_library as c
from gguf_file import write
from gguf_gemma import FULL, SLIDING, Inexpressible, convert
from llama_cpp_library import lib
from protocol import Computed, Model, Session, refuse, serve
from weights import files, read, text_tensors

WORDS = (sys.argv[1:] + [""])[0].split(",")
CROWDED, SWA_FULL, EXACT_GELU = "crowded" in WORDS, "swa-full" in WORDS, "float16" not in WORDS
UNIFIED = CROWDED or "unified" in WORDS
FAMILY = "gemma3n_text" if "gemma3n" in WORDS else "gemma4_text"
FORKS = 4  # sequences of a context for each row that a session was opened with
# Tokens that are computed at once: llama.cpp's default, or so few that nearly every call is cut up.
UBATCH = 2 if "ubatch-2" in WORDS else 512


def pointer(array, kind):
    return array.ctypes.data_as(ctypes.POINTER(kind))


# ---- looking into a computation ----------------------------------------------------------------------------

SQRT_2_OVER_PI = np.float32(math.sqrt(2 / math.pi))


def ggml(name, result):
    function = getattr(lib if hasattr(lib, name) else lib.ggml, name)
    function.restype = result
    return function


name_of, kind_of = ggml("ggml_get_name", ctypes.c_char_p), ggml("ggml_op_desc", ctypes.c_char_p)
get_data, set_data = ggml("ggml_backend_tensor_get", None), ggml("ggml_backend_tensor_set", None)


def values(tensor):
    """A float32 tensor as an array, slowest dimension first; strides as they come."""
    t = tensor.contents
    shape, strides = tuple(t.ne)[::-1], tuple(t.nb)[::-1]
    size = sum((n - 1) * step for n, step in zip(shape, strides)) + 4
    raw = np.empty(size, np.uint8)
    get_data(tensor, raw.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(0), ctypes.c_size_t(size))
    return np.lib.stride_tricks.as_strided(raw.view("<f4"), shape, strides)


def put(tensor, array):
    raw = np.ascontiguousarray(array, "<f4")
    set_data(tensor, raw.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(0), ctypes.c_size_t(raw.nbytes))


def gelu(x):
    return np.float32(0.5) * x * (1 + np.tanh(SQRT_2_OVER_PI * (x + np.float32(0.044715) * x * x * x)))


class Watcher:
    """Keeps what a trace asks for, and computes gelu in float32, for ggml looks it up in a table of float16."""

    def __init__(self):
        self.taken = self.input = None
        self.callback = c.OnEval(self.on_eval)

    def on_eval(self, tensor, asks, _):
        name = self.wanted(tensor) if self.taken is not None else None
        part = self.part_of_gelu(tensor) if EXACT_GELU else None
        if asks:
            return bool(name or part)
        if part:
            part(tensor)
        if name:
            self.taken.setdefault(name, []).append(self.rows(tensor))
        return True

    def part_of_gelu(self, tensor):
        kind, source = kind_of(tensor), tensor.contents.src[0]
        if kind == b"GELU":
            return lambda t: put(t, gelu(self.input))
        if kind == b"GEGLU":
            return lambda t: put(t, gelu(values(t.contents.src[0])) * values(t.contents.src[1]))
        if kind == b"RELU" or kind == b"MUL_MAT" and name_of(source).endswith((b"inp_gate.weight", b"ffn_gate.weight")):
            return self.keep_input  # ggml computes a plain gelu in place
        return None

    def keep_input(self, tensor):
        self.input = values(tensor).copy()

    @staticmethod
    def wanted(tensor):
        name, _, layer = name_of(tensor).decode().partition("-")
        source = tensor.contents.src[0]
        of = name_of(source).decode() if source else ""
        if of.endswith(".attn_output.weight"):
            return f"layer.{of.split('.')[1]}.attention"
        if name == "l_out" and layer.isdigit():  # not "l_out-0 (view)"
            return f"layer.{layer}.output"
        return {"inp_scaled": "embedding", "result_norm": "final_norm"}.get(name)

    @staticmethod
    def rows(tensor):
        array = values(tensor)[0]  # [1 or streams of AltUp, tokens, hidden]
        return (array[0] if len(array) == 1 else array.transpose(1, 0, 2)).copy()


# ---- models ------------------------------------------------------------------------------------------------


def known_to_break(layers):
    """Layouts for which llama.cpp ends the process, by the words of its assertion (scripts/llama_cpp_layouts.py)."""
    if not layers.of(SLIDING):
        return "is_swa_any(): no layer is sliding"
    if layers.owners < 2:
        return "n_layer_kv_from_start >= 2: fewer than two layers own keys"
    consumers = set(layers.types[layers.owners:])
    if FULL in consumers and layers.types[layers.owners - 1] != FULL or \
            SLIDING in consumers and layers.types[layers.owners - 2] != SLIDING:
        return "map_layer_ids.find(il_reuse): the last two owners are not a sliding and a full layer"
    return ""


class LlamaModel(Model):
    def __init__(self, config, weights):
        tensors = {}
        for file in files(weights):
            tensors.update(read(file))
        try:
            metadata, tensors, self.layers = convert(config, text_tensors(tensors))
        except Inexpressible as why:
            refuse("unsupported", f"GGUF and llama.cpp have no way to say this: {why}")
        if known_to_break(self.layers):
            refuse("unsupported", f"llama.cpp aborts: GGML_ASSERT {known_to_break(self.layers)}")
        self.window = config.get("sliding_window", 512)
        self.handle = self.load(metadata, tensors)
        self.vocab = lib.llama_vocab_n_tokens(ctypes.c_void_p(lib.llama_model_get_vocab(self.handle)))
        self.scratch = {}  # contexts for scoring, by their size
        Context(self, 1, 1)  # what it cannot run, it refuses here

    def load(self, metadata, tensors):
        parameters = lib.llama_model_default_params()
        parameters.n_gpu_layers, parameters.load_mode = 0, 0  # read into memory: the file is removed
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.gguf")
            write(path, metadata, tensors)
            handle = lib.llama_model_load_from_file(path.encode(), parameters)
        if not handle:
            refuse("unsupported", f"llama.cpp cannot load this: {c.last_errors()[:400]}")
        return ctypes.c_void_p(handle)

    def __del__(self):
        if getattr(self, "handle", None) and not sys.is_finalizing():
            lib.llama_model_free(self.handle)

    def score(self, tokens, wants_trace):
        """llama.cpp has no path without a cache: one call on an empty one."""
        size = (len(tokens), -(-max(len(row) for row in tokens) // 256))
        if size not in self.scratch:
            self.scratch = {size: Context(self, len(tokens), 256 * size[1])}
        context = self.scratch[size]
        lib.llama_memory_clear(context.memory, True)
        return context.decode(tokens, list(range(len(tokens))), [0] * len(tokens), wants_trace)

    def open(self, batch, capacity):
        return LlamaSession(self, batch, capacity).on(ContextOfSessions(self, batch, capacity))

    def restore(self, path):
        try:
            with np.load(path) as saved:
                books, states = json.loads(str(saved["books"])), [saved[f"row{r}"] for r in range(len(saved) - 1)]
        except Exception as error:
            refuse("invalid", f"{path} holds no saved session: {error}")
        batch = len(books["lengths"])
        session = LlamaSession(self, batch, 0).with_books(books)
        session.on(ContextOfSessions(self, batch, session.capacity))
        for sequence, state in zip(session.ids, states):
            session.context.put(sequence, state)
        return session


class Context:
    """A llama_context of a number of sequences with `cells` positions each, and which sequences are free."""

    def __init__(self, model, sequences, cells):
        self.model, self.cells, self.watcher = model, max(cells, 1), Watcher()
        self.free = list(range(sequences))
        p = c.default_context_params()
        p.n_ctx = p.n_batch = 256 * -(-self.cells // 256) * sequences
        p.n_ubatch, p.n_seq_max = min(UBATCH, p.n_batch), sequences
        p.n_outputs_max = p.n_outputs_max_per_seq = 0
        p.n_threads = p.n_threads_batch = 1
        p.flash_attn, p.type_k, p.type_v = 0, c.F32, c.F32
        p.swa_full, p.kv_unified = SWA_FULL, UNIFIED
        p.cb_eval = ctypes.cast(self.watcher.callback, ctypes.c_void_p)
        handle = lib.llama_init_from_model(model.handle, p)
        if not handle:
            refuse("unsupported", f"llama.cpp cannot run this: {c.last_errors()[:400]}")
        self.handle = ctypes.c_void_p(handle)
        self.memory = ctypes.c_void_p(lib.llama_get_memory(self.handle))

    def __del__(self):
        if getattr(self, "handle", None) and not sys.is_finalizing():
            lib.llama_free(self.handle)

    def take(self, count):
        """That many free sequences, or none where there are not enough."""
        taken, self.free = (self.free[:count], self.free[count:]) if len(self.free) >= count else ([], self.free)
        return taken

    def give_back(self, sequences):
        for sequence in sequences:
            lib.llama_memory_seq_rm(self.memory, sequence, -1, -1)
        self.free += sequences

    def decode(self, tokens, ids, positions, wants_trace):
        """Each row's new tokens from its position on. Returns the logits of all."""
        counts = [len(row) for row in tokens]
        n = sum(counts)
        flat = np.array([t for row in tokens for t in row], np.int32)
        pos = np.concatenate([np.arange(p, p + k, dtype=np.int32) for p, k in zip(positions, counts)])
        sequence = np.repeat(np.array(ids, np.int32), counts)
        of_one = np.ones(n, np.int32)
        wanted = np.ones(n, np.int8)
        lists = (ctypes.POINTER(ctypes.c_int32) * n)(*(pointer(sequence[i:], ctypes.c_int32) for i in range(n)))
        batch = c.Batch(n, pointer(flat, ctypes.c_int32), None, pointer(pos, ctypes.c_int32),
                        pointer(of_one, ctypes.c_int32), lists, pointer(wanted, ctypes.c_int8))
        # A call of several rows is computed in an order of the engine's own.
        self.watcher.taken = {} if wants_trace and sum(k > 0 for k in counts) == 1 else None
        c.said.clear()
        result = lib.llama_decode(self.handle, batch)
        taken, self.watcher.taken = self.watcher.taken or {}, None
        if result != 0:
            raise RuntimeError(f"llama_decode returned {result}: {c.last_errors()}")
        logits = np.ctypeslib.as_array(lib.llama_get_logits(self.handle), (n, self.model.vocab)).copy()
        ends = np.cumsum(counts)[:-1]
        return Computed(np.split(logits, ends),
                        [(name, np.split(np.concatenate(parts), ends)) for name, parts in taken.items()])

    def get(self, sequence):
        state = np.empty(lib.llama_state_seq_get_size(self.handle, sequence), np.uint8)
        size = lib.llama_state_seq_get_data(self.handle, pointer(state, ctypes.c_uint8), ctypes.c_size_t(len(state)),
                                            sequence)
        if size != len(state):
            raise RuntimeError(f"llama_state_seq_get_data returned {size} of {len(state)} bytes: {c.last_errors()}")
        return state

    def put(self, sequence, state):
        state = np.ascontiguousarray(state)
        if not lib.llama_state_seq_set_data(self.handle, pointer(state, ctypes.c_uint8), ctypes.c_size_t(len(state)),
                                            sequence):
            refuse("invalid", f"llama_state_seq_set_data takes this for no state: {c.last_errors()}")


class ContextOfSessions(Context):
    """Of a session and its forks. Where it is crowded, a sequence of somebody else's lives in the same buffer, as other slots
    of llama-server do, and gives up its last tokens between calls: as many as the next call takes, or all of its ubatches but
    the last. So each call goes into cells before those of the one before, and into these as soon as it may."""

    LENGTH = 40

    def __init__(self, model, batch, capacity):
        super().__init__(model, batch * (1 + FORKS) + CROWDED, capacity)
        self.other, self.others_length = (self.take(1) if CROWDED else []), 0
        self.make_room(0)

    def decode(self, tokens, ids, positions, wants_trace):
        count = sum(map(len, tokens))
        self.make_room(count if count <= UBATCH else UBATCH * ((count - 1) // UBATCH))
        return super().decode(tokens, ids, positions, wants_trace)

    def make_room(self, count):
        for sequence in self.other:
            lib.llama_memory_seq_rm(self.memory, sequence, max(0, self.others_length - count), -1)
            self.others_length -= count
            if self.others_length <= 0:
                self.others_length = self.LENGTH
                super().decode([[0] * self.LENGTH], [sequence], [0], False)


# ---- sessions ----------------------------------------------------------------------------------------------


class LlamaSession(Session):
    """ids[r]: the sequence of row r."""

    ids, context = (), None

    def on(self, context):
        self.context, self.ids = context, context.take(len(self.lengths))
        return self

    def __del__(self):
        if self.context is not None and not sys.is_finalizing():
            self.context.give_back(self.ids)

    def _extend(self, tokens, wants_trace):
        return self.context.decode(tokens, self.ids, [self.start + length for length in self.lengths], wants_trace)

    def _rewind(self, lengths):
        """As llama-server does it: only where the sliding cache still has what the next position sees."""
        for sequence, old, new in zip(self.ids, self.lengths, lengths):
            oldest = lib.llama_memory_seq_pos_min(self.context.memory, sequence)
            if 0 < new < old and oldest > self.start + max(0, new - self.model.window + 1):
                refuse("invalid", f"the sliding cache holds positions from {oldest} on")
        for sequence, new in zip(self.ids, lengths):
            if not lib.llama_memory_seq_rm(self.context.memory, sequence, self.start + new if new else -1, -1):
                raise RuntimeError("llama_memory_seq_rm refused a part of a sequence")

    def _reorder(self, rows):
        new = self.context.take(len(rows))
        if not new:
            refuse("unsupported", "no sequences of the context are free")
        for target, row in zip(new, rows):
            lib.llama_memory_seq_cp(self.context.memory, self.ids[row], target, -1, -1)
        self.context.give_back(self.ids)
        self.ids = new

    def _fork(self):
        """Sequences of the same context while some are free (one batch of them stays for reorderings), else another one."""
        old, self.ids = self.ids, []
        batch = len(old)
        if len(self.context.free) >= 2 * batch:
            self.ids = self.context.take(batch)
            for source, target in zip(old, self.ids):
                lib.llama_memory_seq_cp(self.context.memory, source, target, -1, -1)
            return
        states = [self.context.get(sequence) for sequence in old]
        self.on(ContextOfSessions(self.model, batch, self.capacity))
        for sequence, state in zip(self.ids, states):
            self.context.put(sequence, state)

    def save(self, path):
        states = {f"row{r}": self.context.get(sequence) for r, sequence in enumerate(self.ids)}
        with open(path, "wb") as file:
            np.savez(file, books=json.dumps(self.books()), **states)


class Engine:
    NAME = "llama-cpp"
    FAMILIES = [FAMILY]
    CAPABILITIES = ["score", "cache", "chunked", "batch", "ragged", "rewind", "fork", "reorder", "save", "start", "trace"]
    MARGIN = 0  # what has left the window may have been overwritten
    GRANULARITY = 256
    dtype = "float32" if EXACT_GELU else "float16"

    def version(self):
        return c.version()

    def load(self, config, weights):
        return LlamaModel(config, weights)


if __name__ == "__main__":
    serve(Engine())
