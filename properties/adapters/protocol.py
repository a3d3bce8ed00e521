"""The subject protocol, version 1, for adapters: what is the same whatever engine stands behind it.

An adapter brings an Engine (hello, load), its Models (score, open) and their Sessions (extend and what else the engine
can do); serve() does the framing. Everything that the protocol makes the subject's duty and engines leave to their
callers (capacity, vocabulary, number of rows) is checked here, before the engine is asked. Nothing here computes.

What an engine raises by itself is "failed": it broke. What it cannot do, it says with refuse("unsupported", why).
"""
import json
import sys
import traceback

import numpy as np


class Refusal(Exception):
    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


def refuse(kind, message):
    raise Refusal(kind, message)


class Computed:
    """Logits and trace of one call: a list of [new positions, …] arrays, one a batch row, for each name."""

    def __init__(self, logits, trace=()):
        self.logits, self.trace = logits, list(trace)

    def reply(self, wants_trace):
        arrays, fields = [np.concatenate(self.logits)] if self.logits else [], {}
        if wants_trace and any(len(row) for row in self.logits):
            joined = [(name, np.concatenate(rows)) for name, rows in self.trace] + [("logits", arrays[0])]
            fields["trace"] = [{"name": name, "shape": list(a.shape)} for name, a in joined]
            arrays += [a for _, a in joined]
        elif wants_trace:
            fields["trace"] = []
        return fields, b"".join(np.ascontiguousarray(a, "<f4").tobytes() for a in arrays)


class Session:
    """Rows of a batch. Engines override the methods with an underscore, and put what they offer into CAPABILITIES."""

    def __init__(self, model, batch, capacity):
        self.model, self.capacity, self.lengths, self.longest = model, capacity, [0] * batch, [0] * batch
        self.start = 0  # position of each row's first token

    def extend(self, tokens, wants_trace):
        if len(tokens) != len(self.lengths):
            refuse("invalid", f"lists of tokens: {len(tokens)}, rows: {len(self.lengths)}")
        for length, new in zip(self.lengths, tokens):
            if length + len(new) > self.capacity:
                refuse("invalid", f"a length of {length + len(new)} exceeds the capacity of {self.capacity}")
            self.model.check(new)
        if not any(tokens):
            return Computed([np.zeros((0, self.model.vocab), "<f4") for _ in tokens])
        computed = self._extend(tokens, wants_trace)
        self.lengths = [length + len(new) for length, new in zip(self.lengths, tokens)]
        self.longest = [max(pair) for pair in zip(self.longest, self.lengths)]
        return computed

    def rewind(self, lengths):
        if len(lengths) != len(self.lengths):
            refuse("invalid", f"lengths: {len(lengths)}, rows: {len(self.lengths)}")
        for old, new in zip(self.lengths, lengths):
            if not 0 <= new <= old:
                refuse("invalid", f"a row of length {old} cannot be rewound to {new}")
        self._rewind(lengths)
        self.lengths = list(lengths)
        self.longest = [most if length else 0 for most, length in zip(self.longest, lengths)]

    def reorder(self, rows):
        if len(rows) != len(self.lengths) or any(not 0 <= r < len(self.lengths) for r in rows):
            refuse("invalid", f"rows {rows} of a batch of {len(self.lengths)}")
        self._reorder(rows)
        self.lengths, self.longest = [self.lengths[r] for r in rows], [self.longest[r] for r in rows]

    def fork(self):
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__, lengths=list(self.lengths), longest=list(self.longest))
        copy._fork()
        return copy

    def books(self):
        """What `save` must keep besides the engine's own tensors."""
        return {"capacity": self.capacity, "lengths": self.lengths, "longest": self.longest, "start": self.start}

    def with_books(self, books):
        self.capacity, self.lengths, self.longest = books["capacity"], books["lengths"], books["longest"]
        self.start = books["start"]
        return self

    def report(self):
        """One entry a layer: (role, owner) from the model, (positions, bytes) from the cache."""
        layers = []
        for i, owner in enumerate(self.model.owners):
            role = "consumer" if owner != i else "producer" if owner in self.model.owners[i + 1:] else "independent"
            positions, size = (0, 0) if role == "consumer" else self._held(i)
            layers.append({"layer": i, "role": role, "owner": owner, "positions": positions, "bytes": size})
        return {"lengths": self.lengths, "layers": layers}


class Model:
    """vocab: size of the vocabulary; owners: for each layer, whose keys and values it reads."""

    vocab, owners = 0, []

    def check(self, tokens):
        for token in tokens:
            if not 0 <= token < self.vocab:
                refuse("invalid", f"token {token} is outside the vocabulary of {self.vocab}")


class Server:
    """One method a request; each returns the fields of its reply, or (fields, payload)."""

    def __init__(self, engine):
        self.engine, self.models, self.sessions, self.next = engine, {}, {}, 0

    def add(self, where, thing):
        self.next += 1
        where[self.next] = thing
        return self.next

    def find(self, where, key, what):
        return where[key] if key in where else refuse("invalid", f"there is no {what} {key}")

    def need(self, capability):
        if capability not in self.engine.CAPABILITIES:
            refuse("unsupported", f"{self.engine.NAME} does not offer {capability}")

    def model(self, r):
        return self.find(self.models, r["model"], "model")

    def session(self, r):
        return self.find(self.sessions, r["session"], "session")

    def hello(self, r):
        if r["protocol"] != 1:
            refuse("unsupported", f"protocol {r['protocol']}")
        e = self.engine
        return {"name": e.NAME, "version": e.version(), "families": e.FAMILIES, "dtype": e.dtype,
                "capabilities": e.CAPABILITIES, "margin": e.MARGIN, "granularity": e.GRANULARITY}

    def load(self, r):
        return {"model": self.add(self.models, self.engine.load(r["config"], r["weights"]))}

    def unload(self, r):
        model = self.model(r)
        self.sessions = {k: s for k, s in self.sessions.items() if s.model is not model}
        del self.models[r["model"]]
        return {}

    def score(self, r):
        model = self.model(r)
        for tokens in r["tokens"]:
            model.check(tokens)
        if not any(r["tokens"]):
            return {}
        return model.score(r["tokens"], r.get("trace", False)).reply(r.get("trace"))

    def open(self, r):
        model = self.model(r)
        if r["batch"] < 1 or r["capacity"] < 0 or r.get("start", 0) < 0:
            refuse("invalid", "open: negative sizes")
        if r["batch"] > 1:
            self.need("batch")
        if r.get("start", 0) > 0:
            self.need("start")
        session = model.open(r["batch"], r["capacity"])
        session.start = r.get("start", 0)
        return {"session": self.add(self.sessions, session)}

    def extend(self, r):
        return self.session(r).extend(r["tokens"], r.get("trace", False)).reply(r.get("trace"))

    def rewind(self, r):
        self.need("rewind")
        return self.session(r).rewind(r["lengths"]) or {}

    def fork(self, r):
        self.need("fork")
        return {"session": self.add(self.sessions, self.session(r).fork())}

    def reorder(self, r):
        self.need("reorder")
        return self.session(r).reorder(r["rows"]) or {}

    def save(self, r):
        self.need("save")
        return self.session(r).save(r["path"]) or {}

    def restore(self, r):
        self.need("save")
        return {"session": self.add(self.sessions, self.model(r).restore(r["path"]))}

    def cache(self, r):
        self.need("cache_report")
        return self.session(r).report()

    def close(self, r):
        self.session(r)
        del self.sessions[r["session"]]
        return {}

    def quit(self, r):
        return {}


REQUESTS = {"hello", "load", "unload", "score", "open", "extend", "rewind", "fork", "reorder", "save", "restore",
            "cache", "close", "quit"}


def answer(server, request):
    try:
        if request["request"] not in REQUESTS:
            refuse("unsupported", f"request {request['request']}")
        reply = getattr(server, request["request"])(request)
        fields, payload = reply if isinstance(reply, tuple) else (reply, b"")
        return {"ok": True, **fields, **({"payload": len(payload)} if payload else {})}, payload
    except Refusal as refusal:
        return {"error": {"kind": refusal.kind, "message": str(refusal)}}, b""
    except Exception as error:  # the engine broke: the harness shows the message, and starts us anew
        traceback.print_exc()
        return {"error": {"kind": "failed", "message": f"{type(error).__name__}: {error}"}}, b""


def serve(engine):
    server, out = Server(engine), sys.stdout.buffer
    sys.stdout = sys.stderr  # what an engine prints is no message
    for line in sys.stdin.buffer:
        request = json.loads(line)
        reply, payload = answer(server, request)
        out.write(json.dumps(reply).encode() + b"\n" + payload)
        out.flush()
        if request["request"] == "quit":
            break
