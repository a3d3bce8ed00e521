"""Writes GGUF files of version 3: metadata and float32 tensors, as ggml/docs/gguf.md describes them.

    write("model.gguf", {"general.architecture": "gemma4", "gemma4.block_count": 2}, {"output_norm.weight": array})

A Python bool, int, float, str or a list of one of them becomes BOOL, UINT32, FLOAT32, STRING or an array. Tensors have
their dimensions in the order of the file format: the fastest first, the reverse of a numpy shape.
"""
import struct

import numpy as np

UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
ALIGNMENT = 32  # the default of the format


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def scalar(value):
    """(type, bytes); bool first, for it is an int in Python."""
    if isinstance(value, bool):
        return BOOL, struct.pack("<?", value)
    if isinstance(value, int):
        return UINT32, struct.pack("<I", value)
    if isinstance(value, float):
        return FLOAT32, struct.pack("<f", value)
    return STRING, text(value)


def typed(value):
    if not isinstance(value, list):
        kind, raw = scalar(value)
        return struct.pack("<I", kind) + raw
    parts = [scalar(item) for item in value]
    return struct.pack("<IIQ", ARRAY, parts[0][0], len(parts)) + b"".join(raw for _, raw in parts)


def padded(raw):
    return raw + b"\0" * (-len(raw) % ALIGNMENT)


def write(path, metadata, tensors):
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        head += text(key) + typed(value)
    offset, data = 0, []
    for name, tensor in tensors.items():
        raw = padded(np.ascontiguousarray(tensor, "<f4").tobytes())
        shape = tensor.shape[::-1]
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, offset)
        offset += len(raw)
        data.append(raw)
    with open(path, "wb") as file:
        file.write(padded(head))
        for raw in data:
            file.write(raw)
