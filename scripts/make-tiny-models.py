#!/usr/bin/env python3
"""Write a small GGUF with a real vocabulary and random weights: for tests, speed and memory, never for quality.

  make-tiny-models.py NAME --vocabs ENGINE_SOURCE/models --out FILE

Needs numpy. The same name always gives the same bytes with the same numpy. Each architecture stresses another kind of
memory: plain attention, a mixture of experts, a recurrent state, attention and recurrent layers mixed, and a large KV cache.
"""
import argparse
import os
import re
import sys
from pathlib import Path

import numpy as np
from gguf_file import Q4_0, GgufWriter, read_vocabulary

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
HEADERS = (
    "{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'"
    " + message['content'] + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
PLAIN = (
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
)

# Head dimension 64 and matrix sides in multiples of 32: what every backend has kernels for.
SHAPES = {
    "tiny-qwen3": dict(arch="qwen3", vocab="qwen2", words=True, template=CHATML, layers=4, embd=128, heads=4, kv_heads=2, head_dim=64, ff=256),
    "tiny-moe": dict(arch="qwen3moe", vocab="qwen2", words=True, template=CHATML, layers=4, embd=128, heads=4, kv_heads=2, head_dim=64, ff=256,
                     experts=8, experts_used=2, expert_ff=128),
    "tiny-mamba": dict(arch="mamba", vocab="gpt-neox", words=False, template=PLAIN, layers=4, embd=128, state=16, conv=4, dt_rank=32),
    "tiny-hybrid": dict(arch="lfm2", vocab="llama-bpe", words=False, template=HEADERS, layers=4, embd=256, heads=4, kv_heads=2, head_dim=64, ff=256,
                        conv=3),
    "fat-kv": dict(arch="qwen3", vocab="qwen2", words=True, template=CHATML, layers=16, embd=256, heads=16, kv_heads=16, head_dim=128, ff=512),
}
CONTEXT_TOKENS = 131072
# Query and key norms above 1 sharpen attention: a wrong or missing cell of the KV cache then changes the tokens, not only the logits.
ATTENTION_GAIN = 1.7
# Gain of the output matrix: logits spread as in a trained model (standard deviation about 4), so that sampling has something to choose.
OUTPUT_GAIN = 4.0
# Of tokens that are no plain words, where a model is to speak in words: they lose by far, and its text is always valid UTF-8.
# The other models answer with any bytes there are, which tries the detokenizer.
NO_WORD_GAIN = 0.5
WORD = re.compile(rb"(?:\xc4\xa0)?[A-Za-z]{2,12}")


class Weights:
    """Random weights of about unit gain: each layer hands on activations as large as it gets."""

    def __init__(self, out, seed):
        self.out = out
        self.rng = np.random.default_rng(seed)

    def matrix(self, name, *shape, gain=1.0):
        """Q4_0 blocks of random codes, shape (..., rows, columns): far faster than to quantize random numbers. `gain`: of all, or one a row."""
        blocks = np.empty((*shape[:-1], shape[-1] // 32, 18), dtype=np.uint8)
        # Codes 1 to 15 stand for -7 to 7: without the lone -8 their mean is 0. Their standard deviation is sqrt(mean(k*k)) = 4.32.
        scales = np.float16(np.broadcast_to(gain, shape[:-1]) * shape[-1] ** -0.5 / 4.32)
        blocks[..., 0:2] = scales.view(np.uint8).reshape(*shape[:-1], 1, 2)
        low, high = (self.rng.integers(1, 16, size=(*blocks.shape[:-1], 16), dtype=np.uint8) for _ in range(2))
        blocks[..., 2:] = low | (high << 4)
        self.out.add_tensor(name, blocks.reshape(*shape[:-1], -1), Q4_0)

    def plain(self, name, *shape, gain=1.0):
        """F32 of the given standard deviation."""
        self.out.add_tensor(name, self.rng.standard_normal(shape, dtype=np.float32) * np.float32(gain))

    def constant(self, name, value, *shape):
        self.out.add_tensor(name, np.broadcast_to(np.asarray(value, dtype=np.float32), shape).copy())


def output_gains(tokens):
    """Rows of the output matrix: large for words, with or without a space before them (two bytes, as byte-level vocabularies spell it)."""
    return np.array([OUTPUT_GAIN if WORD.fullmatch(token) else NO_WORD_GAIN for token in tokens])


def add_attention(weights, p, shape, gain=ATTENTION_GAIN):
    embd, wide = shape["embd"], shape["heads"] * shape["head_dim"]
    narrow = shape["kv_heads"] * shape["head_dim"]
    weights.matrix(p + "attn_q.weight", wide, embd)
    weights.matrix(p + "attn_k.weight", narrow, embd)
    weights.matrix(p + "attn_v.weight", narrow, embd)
    weights.matrix(p + "attn_output.weight", embd, wide, gain=2.0)
    weights.constant(p + "attn_q_norm.weight", gain, shape["head_dim"])
    weights.constant(p + "attn_k_norm.weight", gain, shape["head_dim"])


def add_dense(weights, p, embd, ff):
    weights.matrix(p + "ffn_gate.weight", ff, embd)
    weights.matrix(p + "ffn_up.weight", ff, embd)
    weights.matrix(p + "ffn_down.weight", embd, ff, gain=2.0)


def add_experts(weights, p, shape):
    embd, count, ff = shape["embd"], shape["experts"], shape["expert_ff"]
    # A router of wide gain: which experts win does not hang on the last bit of an activation.
    weights.plain(p + "ffn_gate_inp.weight", count, embd, gain=4 * embd ** -0.5)
    weights.matrix(p + "ffn_gate_exps.weight", count, ff, embd)
    weights.matrix(p + "ffn_up_exps.weight", count, ff, embd)
    weights.matrix(p + "ffn_down_exps.weight", count, embd, ff, gain=2.0)


def add_mamba(weights, p, shape):
    embd, state, rank, inner = shape["embd"], shape["state"], shape["dt_rank"], 2 * shape["embd"]
    weights.matrix(p + "ssm_in.weight", 2 * inner, embd)
    weights.plain(p + "ssm_conv1d.weight", inner, shape["conv"], gain=0.7)
    weights.constant(p + "ssm_conv1d.bias", 0, inner)
    weights.matrix(p + "ssm_x.weight", rank + 2 * state, inner, gain=2.0)
    weights.plain(p + "ssm_dt.weight", inner, rank, gain=rank ** -0.5)
    # Steps of softplus(-2), about 0.13, and decay rates of 1 to 16 as Mamba starts with: memories of half a token to some ten.
    weights.constant(p + "ssm_dt.bias", -2, inner)
    weights.constant(p + "ssm_a", -np.arange(1, state + 1), inner, state)
    weights.constant(p + "ssm_d", 1, inner)
    weights.matrix(p + "ssm_out.weight", embd, inner, gain=2.0)


def add_short_convolution(weights, p, shape):
    embd = shape["embd"]
    weights.matrix(p + "shortconv.in_proj.weight", 3 * embd, embd)
    weights.plain(p + "shortconv.conv.weight", embd, shape["conv"], gain=0.7)
    weights.matrix(p + "shortconv.out_proj.weight", embd, embd, gain=1.0)


def is_recurrent(shape, layer):
    return shape["arch"] == "mamba" or (shape["arch"] == "lfm2" and layer % 2 == 0)


def add_metadata(out, name, shape, vocab_size):
    out.add("general.name", name)
    out.add("tokenizer.chat_template", shape["template"])
    out.add("{arch}.vocab_size", vocab_size)
    out.add("{arch}.context_length", CONTEXT_TOKENS)
    out.add("{arch}.embedding_length", shape["embd"])
    out.add("{arch}.block_count", shape["layers"])
    out.add("{arch}.attention.layer_norm_rms_epsilon", 1e-6)
    out.add("{arch}.feed_forward_length", shape.get("ff", 0))
    out.add("{arch}.attention.head_count", shape.get("heads", 0))
    if shape["arch"] == "mamba":
        out.add("{arch}.ssm.conv_kernel", shape["conv"])
        out.add("{arch}.ssm.inner_size", 2 * shape["embd"])
        out.add("{arch}.ssm.state_size", shape["state"])
        out.add("{arch}.ssm.time_step_rank", shape["dt_rank"])
        return
    out.add("{arch}.rope.freq_base", 1e6)
    out.add("{arch}.rope.dimension_count", shape["head_dim"])
    out.add("{arch}.attention.key_length", shape["head_dim"])
    out.add("{arch}.attention.value_length", shape["head_dim"])
    if shape["arch"] == "lfm2":
        # A layer without KV heads is a recurrent one.
        out.add("{arch}.attention.head_count_kv", [0 if is_recurrent(shape, i) else shape["kv_heads"] for i in range(shape["layers"])])
        out.add("{arch}.shortconv.l_cache", shape["conv"])
    else:
        out.add("{arch}.attention.head_count_kv", shape["kv_heads"])
    if "experts" in shape:
        out.add("{arch}.expert_count", shape["experts"])
        out.add("{arch}.expert_used_count", shape["experts_used"])
        out.add("{arch}.expert_feed_forward_length", shape["expert_ff"])


def add_layer(weights, i, shape):
    p, arch, embd = f"blk.{i}.", shape["arch"], shape["embd"]
    weights.constant(p + "attn_norm.weight", 1, embd)
    if arch == "mamba":
        add_mamba(weights, p, shape)
        return
    weights.constant(p + "ffn_norm.weight", 1, embd)
    if is_recurrent(shape, i):
        add_short_convolution(weights, p, shape)
    else:
        add_attention(weights, p, shape)
    if "experts" in shape:
        add_experts(weights, p, shape)
    else:
        add_dense(weights, p, embd, shape["ff"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=SHAPES)
    parser.add_argument("--vocabs", required=True, help="folder of ggml-vocab-*.gguf")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    shape = SHAPES[args.name]
    vocab = Path(args.vocabs) / f"ggml-vocab-{shape['vocab']}.gguf"
    if not vocab.exists():
        sys.exit(f"there is no vocabulary {vocab}")

    out = GgufWriter(shape["arch"])
    tokenizer, tokens = read_vocabulary(vocab)
    out.add_raw(tokenizer)
    add_metadata(out, args.name, shape, len(tokens))
    weights = Weights(out, seed=sorted(SHAPES).index(args.name) + 1)
    weights.matrix("token_embd.weight", len(tokens), shape["embd"], gain=shape["embd"] ** 0.5)
    weights.constant("token_embd_norm.weight" if shape["arch"] == "lfm2" else "output_norm.weight", 1, shape["embd"])
    weights.matrix("output.weight", len(tokens), shape["embd"], gain=output_gains(tokens) if shape["words"] else OUTPUT_GAIN)
    for i in range(shape["layers"]):
        add_layer(weights, i, shape)
    draft = f"{args.out}.{os.getpid()}"
    out.write(draft)
    os.replace(draft, args.out)


if __name__ == "__main__":
    main()
