"""The accuracy of a finished run's model, computed from its files alone: numpy, and nothing of Kindling.

Usage: accuracy.py RESULTS FEATURES LABELS    (RESULTS: runs/ID; the others: IDX files, plain or gzip'd)
Prints the share of samples that are classified rightly.
"""

import gzip
import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file


def read_idx(path):
    raw = Path(path).read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    dimensions = raw[3]
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(dimensions)]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def windows(x, size, stride):
    views = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(2, 3))
    return views[:, :, ::stride, ::stride]


def conv2d(x, layer, weight, bias):
    size = layer["kernel_size"]
    if layer.get("padding") == "same":
        border = size // 2
        x = np.pad(x, ((0, 0), (0, 0), (border, border), (border, border)))
    return np.einsum("bchwij,ocij->bohw", windows(x, size, layer.get("stride", 1)), weight) + bias[:, None, None]


def forward(x, layers, tensors):
    for index, layer in enumerate(layers):
        kind = layer["kind"]
        if kind == "flatten":
            x = x.reshape(len(x), -1)
        elif kind == "linear":
            x = x @ tensors[f"layers.{index}.weight"] + tensors[f"layers.{index}.bias"]
        elif kind == "conv2d":
            x = conv2d(x, layer, tensors[f"layers.{index}.weight"], tensors[f"layers.{index}.bias"])
        elif kind == "max_pool2d":
            x = windows(x, layer["size"], layer.get("stride") or layer["size"]).max(axis=(4, 5))
        elif kind == "relu":
            x = np.maximum(x, 0)
        elif kind != "dropout":
            raise SystemExit(f"unknown layer {kind}")
    return x


def main(results, features, labels):
    card = json.loads((Path(results) / "model.json").read_text())
    tensors = load_file(Path(results) / "model.safetensors")
    x = read_idx(features).astype(np.float32)
    y = read_idx(labels)
    for transform in card["transforms"]:
        if transform["kind"] == "scale":
            x = x * np.float32(transform["by"])
        elif transform["kind"] == "standardize":
            x = (x - np.float32(transform["mean"])) / np.float32(transform["deviation"])
        else:
            raise SystemExit(f"unknown transform {transform['kind']}")
    x = x.reshape([len(x), *card["sample_shape"]])
    layers = card["model"]["layers"]
    right = sum(
        int((forward(x[i : i + 500], layers, tensors).argmax(axis=1) == y[i : i + 500]).sum())
        for i in range(0, len(x), 500)
    )
    print(right / len(x))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
