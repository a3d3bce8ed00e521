#!/usr/bin/env python3
"""A complete subject in Python: numpy_gemma.py behind the subject protocol.

An example of the protocol (properties/subject-protocol.md) and a second implementation to hold the
harness against. To put an engine of your own under test, copy this file and replace the model.

    kvconform check --subject process:'python3 properties/examples/numpy_subject.py'
"""
import copy
import json
import sys
import zipfile

import numpy as np

from numpy_gemma import DEFAULTS, MARGIN, Model, Refusal, Row, invalid


class Session:
    def __init__(self, model, rows, capacity):
        self.model, self.rows, self.capacity = model, rows, capacity

    def extend(self, tokens, trace):
        if len(tokens) != len(self.rows):
            invalid(f"lists of tokens: {len(tokens)}, rows: {len(self.rows)}")
        for row, new in zip(self.rows, tokens):
            if row.length + len(new) > self.capacity:
                invalid(f"a length of {row.length + len(new)} exceeds the capacity of {self.capacity}")
            self.model.check(new)
        return run(self.model, list(zip(tokens, self.rows)), trace)

    def rewind(self, lengths):
        if len(lengths) != len(self.rows):
            invalid(f"lengths: {len(lengths)}, rows: {len(self.rows)}")
        new = [copy.copy(row) for row in self.rows]
        for row, length in zip(new, lengths):
            if not 0 <= length <= row.length:
                invalid(f"a row of length {row.length} cannot be rewound to {length}")
            row.kv = dict(row.kv) if length else {}
            for i, (first, k, v) in row.kv.items():
                window = self.model.layers[i].window
                if window and length < row.length and first > max(0, length - window + 1):
                    invalid(f"layer {i} has forgotten what position {length} sees")
                keep = max(0, length - first)
                row.kv[i] = (first, k[:keep], v[:keep])
            row.length, row.longest = length, row.longest if length else 0
        self.rows = new

    def copy(self):
        rows = [copy.copy(row) for row in self.rows]
        for row in rows:
            row.kv = dict(row.kv)
        return Session(self.model, rows, self.capacity)

    def reorder(self, sources):
        if len(sources) != len(self.rows) or any(not 0 <= s < len(self.rows) for s in sources):
            invalid(f"rows {sources} of a batch of {len(self.rows)}")
        self.rows = [Session(self.model, [self.rows[s]], 0).copy().rows[0] for s in sources]

    def save(self, path):
        arrays = {"shape": np.array([len(self.rows), self.capacity])}
        for r, row in enumerate(self.rows):
            arrays[f"row.{r}"] = np.array([row.start, row.length, row.longest])
            for i, (first, k, v) in row.kv.items():
                arrays |= {f"{r}.{i}.first": np.array(first), f"{r}.{i}.k": k, f"{r}.{i}.v": v}
        with open(path, "wb") as file:
            np.savez(file, **arrays)

    @staticmethod
    def restore(model, path):
        try:
            saved = np.load(path, allow_pickle=False)
            batch, capacity = (int(n) for n in saved["shape"])
            rows = [Row() for _ in range(batch)]
            for r, row in enumerate(rows):
                row.start, row.length, row.longest = (int(n) for n in saved[f"row.{r}"])
                for name in (n for n in saved if n.startswith(f"{r}.") and n.endswith(".first")):
                    key = name[:-len(".first")]
                    row.kv[int(key.split(".")[1])] = (
                        int(saved[name]), saved[key + ".k"], saved[key + ".v"])
        except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
            invalid(f"{path} holds no saved session: {error}")
        return Session(model, rows, capacity)

    def report(self):
        layers = []
        for at in self.model.layers:
            kept = [row.kv[at.index][1:] for row in self.rows if at.index in row.kv]
            layers.append({"layer": at.index, "role": at.role, "owner": at.owner,
                           "positions": sum(len(k) for k, _ in kept),
                           "bytes": sum(k.nbytes + v.nbytes for k, v in kept)})
        return {"lengths": [row.length for row in self.rows], "layers": layers}


def run(model, work, wants_trace):
    """Row after row; the reply and its payload: logits, then the trace."""
    logits, traces = [], []
    for tokens, row in work:
        trace = []
        logits.append(model.forward(tokens, row, trace))
        if trace:
            traces.append(trace)
    arrays, reply = [np.concatenate(logits)] if logits else [], {}
    if wants_trace:
        joined = [(rows[0][0], np.concatenate([a for _, a in rows])) for rows in zip(*traces)]
        reply["trace"] = [{"name": name, "shape": list(a.shape)} for name, a in joined]
        arrays += [a for _, a in joined]
    return reply, b"".join(a.astype("<f4").tobytes() for a in arrays)


class Subject:
    """One method a request; each returns the fields of its reply, or (fields, payload)."""

    def __init__(self):
        self.models, self.sessions, self.next = {}, {}, 0

    def add(self, where, thing):
        self.next += 1
        where[self.next] = thing
        return self.next

    def find(self, where, key, what):
        return where[key] if key in where else invalid(f"there is no {what} {key}")

    def hello(self, r):
        if r["protocol"] != 1:
            raise Refusal("unsupported", f"protocol {r['protocol']}")
        return {"name": "numpy", "version": "1", "families": list(DEFAULTS), "dtype": "float32",
                "margin": MARGIN, "capabilities": [
                    "score", "cache", "chunked", "batch", "ragged", "rewind", "fork", "reorder",
                    "save", "cache_report", "trace", "sharing_map", "start"]}

    def load(self, r):
        return {"model": self.add(self.models, Model(r["config"], r["weights"]))}

    def unload(self, r):
        model = self.find(self.models, r["model"], "model")
        self.sessions = {k: s for k, s in self.sessions.items() if s.model is not model}
        del self.models[r["model"]]
        return {}

    def score(self, r):
        model = self.find(self.models, r["model"], "model")
        for tokens in r["tokens"]:
            model.check(tokens)
        return run(model, [(tokens, Row()) for tokens in r["tokens"]], r.get("trace"))

    def open(self, r):
        model = self.find(self.models, r["model"], "model")
        if model.both_ways:
            raise Refusal("unsupported", "a model that looks both ways has no cache")
        if r["batch"] < 1 or r["capacity"] < 0 or r.get("start", 0) < 0:
            invalid("open: negative sizes")
        rows = [Row(r.get("start", 0)) for _ in range(r["batch"])]
        return {"session": self.add(self.sessions, Session(model, rows, r["capacity"]))}

    def restore(self, r):
        model = self.find(self.models, r["model"], "model")
        return {"session": self.add(self.sessions, Session.restore(model, r["path"]))}

    def session(self, r):
        return self.find(self.sessions, r["session"], "session")

    def extend(self, r):
        return self.session(r).extend(r["tokens"], r.get("trace"))

    def fork(self, r):
        return {"session": self.add(self.sessions, self.session(r).copy())}

    def rewind(self, r):
        return self.session(r).rewind(r["lengths"]) or {}

    def reorder(self, r):
        return self.session(r).reorder(r["rows"]) or {}

    def save(self, r):
        return self.session(r).save(r["path"]) or {}

    def cache(self, r):
        return self.session(r).report()

    def close(self, r):
        self.session(r)
        del self.sessions[r["session"]]
        return {}

    def quit(self, r):
        return {}


REQUESTS = {"hello", "load", "unload", "score", "open", "extend", "rewind", "fork", "reorder", "save",
            "restore", "cache", "close", "quit"}


def answer(subject, request):
    try:
        if request["request"] not in REQUESTS:
            raise Refusal("unsupported", f"request {request['request']}")
        reply = getattr(subject, request["request"])(request)
        fields, payload = reply if isinstance(reply, tuple) else (reply, b"")
        return {"ok": True, **fields, **({"payload": len(payload)} if payload else {})}, payload
    except Refusal as refusal:
        return {"error": {"kind": refusal.kind, "message": str(refusal)}}, b""


def main():
    subject, out = Subject(), sys.stdout.buffer
    for line in sys.stdin.buffer:
        request = json.loads(line)
        reply, payload = answer(subject, request)
        out.write(json.dumps(reply).encode() + b"\n" + payload)
        out.flush()
        if request["request"] == "quit":
            break


if __name__ == "__main__":
    np.seterr(all="ignore")  # infinities and NaN are for the harness to judge
    main()
