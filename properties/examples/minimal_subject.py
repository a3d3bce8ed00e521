#!/usr/bin/env python3
"""The smallest program that speaks the subject protocol: what to start from.

It offers nothing yet, and says so: every property is then "not applicable", never "passed". Set
ENGINE to something that computes logits, and name in CAPABILITIES and FAMILIES what it can do.

    kvconform check --subject process:'python3 properties/examples/minimal_subject.py'
"""
import json
import struct
import sys

ENGINE = None        # an object with load(config, weights) → model, model.score(tokens) → rows of logits
CAPABILITIES = []    # e.g. ["score", "batch", "ragged"]; see properties/subject-protocol.md
FAMILIES = []        # e.g. ["gemma3n_text"]
models = {}


def hello(request):
    return {"name": "minimal", "version": "1", "families": FAMILIES, "dtype": "float32",
            "capabilities": CAPABILITIES}, b""


def load(request):
    if ENGINE is None:
        raise NotImplementedError("there is no engine yet")
    key = len(models)
    models[key] = ENGINE.load(request["config"], request["weights"])
    return {"model": key}, b""


def unload(request):
    models[request["model"]] = None
    return {}, b""


def score(request):
    logits = []  # all rows one after the other, each its positions in order
    for tokens in request["tokens"]:
        for position in models[request["model"]].score(tokens):
            logits.extend(position)
    return {}, struct.pack(f"<{len(logits)}f", *logits)


def quit(request):
    return {}, b""


ANSWERS = {"hello": hello, "load": load, "unload": unload, "score": score, "quit": quit}


def answer(request):
    try:
        if request["request"] not in ANSWERS:
            raise NotImplementedError(f"no {request['request']} here")
        fields, payload = ANSWERS[request["request"]](request)
        return {"ok": True, **fields, "payload": len(payload)}, payload
    except NotImplementedError as error:  # not offered: never a failure of a test
        return {"error": {"kind": "unsupported", "message": str(error)}}, b""
    except ValueError as error:           # bad input, refused as it should be
        return {"error": {"kind": "invalid", "message": str(error)}}, b""


for line in sys.stdin.buffer:
    request = json.loads(line)
    reply, payload = answer(request)
    sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n" + payload)
    sys.stdout.buffer.flush()
    if request["request"] == "quit":
        break
