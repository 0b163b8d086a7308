"""Ways to change a file: at random, as JSON or a table, or with a digest that fits what is wrong with it."""

from __future__ import annotations

import json
import random
import re
import string
from typing import Any

import safetensors.torch
import torch

from mepol.runs.tensors import tensor_bytes

HUGE = (0, 1, -1, 2**31, 2**32, 2**53, 2**62, 2**63, 2**64, 10**30, 10**400, 1e308, -1e308)


def mutate(data: bytes, rng: random.Random, others: list[bytes], bomb: bytes) -> bytes:
    """One to three changes of random kinds."""
    kinds = [flip, flip, cut, splice, insert, size, header, header, json_edit, json_edit, text_edit, words]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.03:
            data = rng.choice((bomb, bomb + data, data[:8] + bomb, rng.choice(others)))
        else:
            data = rng.choice(kinds)(data, rng)
    return data


def forge(data: bytes, rng: random.Random) -> bytes:
    """A file with a digest that fits, whose tensors or header are not what they should be."""
    tensors = {name: t.clone() for name, t in safetensors.torch.load(data).items()}
    texts = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    del texts["sha256"]
    name = rng.choice(sorted(tensors))
    whole = tensors[name]
    odd = {
        "nan": lambda: torch.full_like(whole, torch.nan) if whole.is_floating_point() else whole,
        "huge": lambda: torch.full_like(whole, rng.choice((1e30, -1e30, 89, 0)) if whole.is_floating_point() else 3),
        "scalar": lambda: torch.tensor(0.0),
        "empty": lambda: whole[:0] if whole.dim() else torch.zeros(0),
        "bfloat16": lambda: whole.to(torch.bfloat16),
        "double": lambda: whole.double(),
        "float8": lambda: whole.float().to(torch.float8_e4m3fn),
        "bool": lambda: whole != 0,
        "long": lambda: torch.cat([whole, whole]) if whole.dim() else whole,
        "flat": lambda: whole.reshape(-1),
    }
    action = rng.random()
    if action < 0.5:
        tensors[name] = odd[rng.choice(sorted(odd))]()
    elif action < 0.6:
        del tensors[name]
    elif action < 0.7:
        tensors[rng.choice(("extra", "0." + name, name + "é", ""))] = tensors[name]
    else:
        numbers = ("", "-1", "0", "1", "7", "99999", "9" * 18, "9" * 5000, "NaN", "null")
        lists = ("[]", "[[0,1]]", "[2,2]", "[65536,65536]", "[[8,20,1],[7,20,2]]", '{"torch":[]}', "\ud7ff\x1b[31m")
        texts[rng.choice(sorted(texts))] = rng.choice((*numbers, *lists))
    return tensor_bytes(tensors, texts)


def flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def splice(data: bytes, rng: random.Random) -> bytes:
    a, b, c = sorted(rng.randrange(len(data) + 1) for _ in range(3))
    return rng.choice((data[:a] + data[b:], data[:b] + data[a:], data[:a] + data[b:c] + data[a:b] + data[c:]))


def insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice((rng.randbytes(rng.randrange(1, 64)), b"\0" * 5000, b"[" * 3000)) + data[at:]


def size(data: bytes, rng: random.Random) -> bytes:
    """A forged length of the header."""
    return rng.choice((0, 1, 7, len(data), 2**20, 10**8, 2**31, 2**63 - 1, 2**64 - 1)).to_bytes(8, "little") + data[8:]


def header(data: bytes, rng: random.Random) -> bytes:
    """A header that is well formed and lies."""
    length = int.from_bytes(data[:8], "little")
    try:
        entries = json.loads(data[8 : 8 + length])
        edit(entries, rng)
        forged = json.dumps(entries).encode()
    except (ValueError, OverflowError, RecursionError):
        return data[::-1]
    return len(forged).to_bytes(8, "little") + forged + data[8 + length :]


def json_edit(data: bytes, rng: random.Random) -> bytes:
    try:
        entries = json.loads(data)
        edit(entries, rng)
        return json.dumps(entries).encode()
    except (ValueError, RecursionError):
        return header(data, rng)


def edit(entries: Any, rng: random.Random) -> None:
    """Change one value, somewhere in the tree, to something extreme; or a key; or drop it."""
    while isinstance(entries, dict | list) and entries:
        key = rng.choice(list(entries)) if isinstance(entries, dict) else rng.randrange(len(entries))
        if isinstance(entries[key], dict | list) and rng.random() < 0.8:
            entries = entries[key]
            continue
        action = rng.random()
        if action < 0.7:
            word = "".join(rng.choices(string.printable, k=rng.randrange(12)))
            extreme = (*HUGE, None, True, [], {}, word, "9" * 5000, [2**40, 2**40], [65536] * 31, "F64", "BOOL", "NaN")
            entries[key] = rng.choice((*extreme, float("nan"), float("inf"), str(rng.choice(HUGE))))
        elif action < 0.85 and isinstance(entries, dict):
            entries[rng.choice(("__metadata__", "sha256", "é\ud800", "extra"))] = entries.pop(key)
        else:
            del entries[key]
        return


def text_edit(data: bytes, rng: random.Random) -> bytes:
    """Change one cell of a table."""
    cells = data.split(b",")
    odd = (b"", b"nan", b"-1", b"1e999", b"9" * 30, b"9" * 5000, b'"', b"\0", b"\n", b"\xff", "१".encode(), b"1_0")
    cells[rng.randrange(len(cells))] = rng.choice(odd)
    return b",".join(cells)


def words(data: bytes, rng: random.Random) -> bytes:
    """Change one number or word of a text."""
    parts = re.split(rb"([A-Za-z0-9_.+-]+)", data)
    numbers = (b"nan", b"-1", b"1e308", b"1e999", b"0", b"1" + b"0" * 400, b"9" * 5000)
    odd = (*numbers, b"\\ud800", b"\xff", b"true", b'""', b"..")
    if len(parts) > 2:
        parts[rng.randrange(1, len(parts), 2)] = rng.choice(odd)
    return b"".join(parts)
