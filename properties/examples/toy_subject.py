#!/usr/bin/env python3
"""A toy engine behind the subject protocol: what to start from. Copy it, and put your engine in place of Model and Row.

Its "model" is nothing but a sum: the logits of a position depend on the tokens so far and on the position. What it
computes on the way is its trace: where two computations part, the first array that differs is named. It has a bug on
purpose; "Your engine under test in 30 minutes" (properties/README.md) finds it and mends it.

    kvconform check --subject 'process:python3 properties/examples/toy_subject.py'
"""
import json
import struct
import sys

NAME, VERSION, DTYPE = "toy", "1", "float32"
FAMILIES = ["gemma3n_text", "gemma4_text"]
CAPABILITIES = ["score", "cache", "chunked", "batch", "ragged", "rewind", "trace"]  # properties/subject-protocol.md
TRACE = ["embedding", "layer.0.attention"]  # in the order of computation


class Unsupported(Exception):
    """Not offered: never a failure by itself."""


class Invalid(Exception):
    """Bad input, refused as it should be; nothing has changed."""


# ---- the engine -----------------------------------------------------------------------------------------------------


class Model:
    def __init__(self, config, weights):
        """config: the text config, a dict; weights: a safetensors file, or a folder with an index and shards."""
        self.vocab_size = config["vocab_size"]


class Row:
    """One row of a batch and its cache: here its tokens, where a model keeps keys and values."""

    def __init__(self, model):
        self.model, self.cache, self.length = model, [], 0

    def extend(self, tokens):
        """What is computed for every new position, by name."""
        computed = []
        for token in tokens:
            position = self.length
            self.cache.append(token)
            attention = sum(self.cache) + 3 * position
            logits = [(attention + v) % 7 for v in range(self.model.vocab_size)]
            computed.append({"logits": logits, "embedding": [token], "layer.0.attention": [attention]})
        self.length += len(tokens)
        return computed

    def rewind(self, length):
        self.cache, self.length = self.cache[:length], length


# ---- the protocol ---------------------------------------------------------------------------------------------------


class Session:
    def __init__(self, model, batch, capacity):
        self.rows, self.capacity = [Row(model) for _ in range(batch)], capacity


models, sessions = {}, {}


def check(model, tokens):
    if any(not 0 <= token < model.vocab_size for row in tokens for token in row):
        raise Invalid("a token is outside the vocabulary")


def compute(rows, tokens, request):
    """The logits, all rows one after the other, each its new positions in order; then the trace, if it is asked for."""
    positions = [position for row, new in zip(rows, tokens) for position in row.extend(new)]
    trace = TRACE if request.get("trace") else []
    numbers = [x for name in ["logits", *trace] for position in positions for x in position[name]]
    shapes = [{"name": name, "shape": [len(positions), 1]} for name in trace]
    return {"trace": shapes}, struct.pack(f"<{len(numbers)}f", *numbers)


def hello(request):
    return {"name": NAME, "version": VERSION, "families": FAMILIES, "dtype": DTYPE, "capabilities": CAPABILITIES}


def load(request):
    key = len(models)
    models[key] = Model(request["config"], request["weights"])
    return {"model": key}


def unload(request):
    models[request["model"]] = None


def score(request):
    model = models[request["model"]]
    check(model, request["tokens"])
    return compute([Row(model) for _ in request["tokens"]], request["tokens"], request)


def open_session(request):
    key = len(sessions)
    sessions[key] = Session(models[request["model"]], request["batch"], request["capacity"])
    return {"session": key}


def extend(request):
    session, tokens = sessions[request["session"]], request["tokens"]
    if len(tokens) != len(session.rows):
        raise Invalid("a wrong number of rows")
    if any(row.length + len(new) > session.capacity for row, new in zip(session.rows, tokens)):
        raise Invalid("beyond the capacity")
    check(session.rows[0].model, tokens)
    return compute(session.rows, tokens, request)


def rewind(request):
    session, lengths = sessions[request["session"]], request["lengths"]
    if len(lengths) != len(session.rows):
        raise Invalid("a wrong number of rows")
    if any(not 0 <= length <= row.length for row, length in zip(session.rows, lengths)):
        raise Invalid("a row can only be cut back")
    for row, length in zip(session.rows, lengths):
        row.rewind(length)


def close(request):
    sessions[request["session"]] = None


ANSWERS = {"hello": hello, "load": load, "unload": unload, "score": score, "open": open_session, "extend": extend,
           "rewind": rewind, "close": close, "quit": lambda request: None}


def answer(request):
    try:
        if request["request"] not in ANSWERS:
            raise Unsupported(f"no {request['request']} here")
        reply = ANSWERS[request["request"]](request) or {}
        fields, payload = reply if isinstance(reply, tuple) else (reply, b"")
        return {"ok": True, **fields, "payload": len(payload)}, payload
    except Unsupported as refusal:
        return {"error": {"kind": "unsupported", "message": str(refusal)}}, b""
    except Invalid as refusal:
        return {"error": {"kind": "invalid", "message": str(refusal)}}, b""


for line in sys.stdin.buffer:
    request = json.loads(line)
    reply, payload = answer(request)
    sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n" + payload)
    sys.stdout.buffer.flush()
    if request["request"] == "quit":
        break
