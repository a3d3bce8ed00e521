"""Tensor names of checkpoints, as numpy_gemma.py of the examples reads them, for engines that expect one layout only."""
import glob
import os

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
