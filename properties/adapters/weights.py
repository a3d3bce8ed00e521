"""Tensor names of checkpoints, as numpy_gemma.py of the examples reads them, for engines that expect one layout only; and
the files themselves, for engines without a reader of their own."""
import glob
import json
import os

import numpy as np

PREFIXES = ["model.language_model.", "language_model.model.", "model.", "language_model.", ""]


def files(path):
    """The safetensors files of a checkpoint: the file itself, or those in the folder."""
    return sorted(glob.glob(os.path.join(path, "*.safetensors"))) if os.path.isdir(path) else [path]


# Beside these a checkpoint may hold towers for images and sound.
TEXT = ("embed_tokens", "per_layer_", "norm.", "altup_", "layers.", "lm_head.")


def text_tensors(tensors):
    """Name after the prefix → tensor: those of the text model; the head is `lm_head.weight`."""
    prefix = next((p for p in PREFIXES if p + "embed_tokens.weight" in tensors), None)
    if prefix is None:
        raise KeyError("no embed_tokens.weight in the checkpoint")
    text = {}
    for name, tensor in tensors.items():
        if name.endswith("lm_head.weight"):  # stands beside the model in files with a prefix
            text["lm_head.weight"] = tensor
        elif name.startswith(prefix) and name[len(prefix):].startswith(TEXT):
            text[name[len(prefix):]] = tensor
    return text


def read(path):
    """name → float32 array of one safetensors file: an 8-byte length, a JSON header, then the numbers."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    kinds = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] not in kinds:
            continue
        begin, end = entry["data_offsets"]
        array = np.frombuffer(data[begin:end], kinds[entry["dtype"]])
        if entry["dtype"] == "BF16":  # the upper half of a float32
            array = (array.astype("<u4") << 16).view("<f4")
        tensors[name] = array.astype("<f4").reshape(entry["shape"])
    return tensors
