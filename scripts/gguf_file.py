"""GGUF as far as the test models need it: copy a vocabulary as raw bytes, write metadata and tensors. Needs numpy only.

The format: magic, version, counts; key-value pairs; tensor descriptions; tensor data, each at a multiple of 32 bytes. Copying
the vocabulary unparsed takes a fraction of a second where reading 300,000 strings into Python objects takes half a minute.
"""
import struct

import numpy as np

MAGIC = b"GGUF"
VERSION = 3
ALIGNMENT = 32
F32, F16, Q4_0, Q8_0 = 0, 1, 2, 8
# (elements, bytes) of a block.
BLOCKS = {F32: (1, 4), F16: (1, 2), Q4_0: (32, 18), Q8_0: (32, 34)}
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def _text(value):
    data = value.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def _skip_value(data, at, kind):
    """Where the value of this kind at `at` ends."""
    if kind == STRING:
        return at + 8 + struct.unpack_from("<Q", data, at)[0]
    if kind != ARRAY:
        return at + SCALAR_BYTES[kind]
    element, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if element != STRING:
        return at + count * SCALAR_BYTES[element]
    for _ in range(count):
        at += 8 + struct.unpack_from("<Q", data, at)[0]
    return at


def _read_texts(data, at):
    """The strings of the array at `at`."""
    count, texts = struct.unpack_from("<Q", data, at + 4)[0], []
    at += 12
    for _ in range(count):
        length = struct.unpack_from("<Q", data, at)[0]
        texts.append(data[at + 8:at + 8 + length])
        at += 8 + length
    return texts


def read_vocabulary(path):
    """The tokenizer of a GGUF as raw key-value pairs, without a chat template, and the tokens' texts as bytes."""
    data = path.read_bytes()
    magic, version, _, pairs = struct.unpack_from("<4sIQQ", data)
    if magic != MAGIC or version not in (2, 3):
        raise SystemExit(f"{path} is no GGUF that can be read")
    at, found, tokens = 24, [], []
    for _ in range(pairs):
        start = at
        length = struct.unpack_from("<Q", data, at)[0]
        key = data[at + 8:at + 8 + length].decode("utf-8")
        kind = struct.unpack_from("<I", data, at + 8 + length)[0]
        value = at + 12 + length
        at = _skip_value(data, value, kind)
        if key == "tokenizer.ggml.tokens":
            tokens = _read_texts(data, value)
        if key.startswith("tokenizer.") and key != "tokenizer.chat_template":
            found.append(data[start:at])
    return found, tokens


class GgufWriter:
    def __init__(self, arch):
        self.arch = arch
        self.pairs = []
        self.tensors = []
        self.add("general.architecture", arch)

    def add(self, key, value):
        """A metadata value; `{arch}` in the key stands for the architecture. An int is a uint32; a list holds ints or texts."""
        head = _text(key.replace("{arch}", self.arch))
        if isinstance(value, str):
            self.pairs.append(head + struct.pack("<I", STRING) + _text(value))
        elif isinstance(value, bool):
            self.pairs.append(head + struct.pack("<I?", BOOL, value))
        elif isinstance(value, int):
            self.pairs.append(head + struct.pack("<II", UINT32, value))
        elif isinstance(value, float):
            self.pairs.append(head + struct.pack("<If", FLOAT32, value))
        elif isinstance(value[0], str):
            self.pairs.append(head + struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(_text, value)))
        else:
            self.pairs.append(head + struct.pack("<IIQ", ARRAY, INT32, len(value)) + np.array(value, "<i4").tobytes())

    def add_raw(self, pairs):
        self.pairs.extend(pairs)

    def add_tensor(self, name, data, kind=F32):
        """`data`: numbers of that kind, or for a block type its bytes, shape (..., rows, bytes of a row)."""
        elements, size = BLOCKS[kind]
        columns = data.shape[-1] * data.itemsize // size * elements
        self.tensors.append((name, (*data.shape[:-1], columns), kind, np.ascontiguousarray(data)))

    def write(self, path):
        with open(path, "wb") as out:
            out.write(struct.pack("<4sIQQ", MAGIC, VERSION, len(self.tensors), len(self.pairs)))
            out.write(b"".join(self.pairs))
            offset = 0
            for name, shape, kind, data in self.tensors:
                out.write(_text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape)))
                out.write(struct.pack("<IQ", kind, offset))
                offset += -(-data.nbytes // ALIGNMENT) * ALIGNMENT
            for _, _, _, data in self.tensors:
                out.write(b"\0" * (-out.tell() % ALIGNMENT))
                out.write(data.tobytes())


def quantize_q8_0(values):
    """F32 values, columns a multiple of 32, as the bytes of Q8_0 rows: a scale and 32 signed bytes a block."""
    blocks = values.astype(np.float32).reshape(-1, 32)
    scales = np.abs(blocks).max(axis=1, keepdims=True) / 127
    # Halves away from zero, as the engine's own quantizer rounds.
    exact = blocks * np.divide(1, scales, out=np.zeros_like(scales), where=scales > 0)
    codes = np.trunc(exact + np.copysign(np.float32(0.5), exact)).astype(np.int8)
    packed = np.concatenate([scales.astype(np.float16).view(np.uint8), codes.view(np.uint8)], axis=1)
    return packed.reshape(*values.shape[:-1], -1)
