"""Projection rows as the page writes them."""

import hashlib
import json
import re
from pathlib import Path
from statistics import NormalDist
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "projections.md"


def _page_vectors() -> dict[str, Any]:
    (block,) = re.findall(r"^```json\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)
    parsed: dict[str, Any] = json.loads(block)
    return parsed


VECTORS = _page_vectors()


SEED = bytes.fromhex(VECTORS["seed"])


def decode(family: str, k: int, s: int, text: str, grid_bits: int | None = None) -> list[int]:  # noqa: C901
    """Read the page word by word: plain Python integers, one attribute at a time."""

    def u32(number: int) -> bytes:
        return number.to_bytes(4, "little")

    name = text.encode("utf-8")
    shake = hashlib.shake_256()
    for piece in (
        b"dimly/1",
        b"\x00",
        family.encode("ascii"),
        b"\x00",
        u32(k),
        u32(s),
        SEED,
        u32(len(name)),
        name,
    ):
        shake.update(piece)
    stream = shake.digest(16 * k + 16 * s + 64)

    def word(index: int) -> int:
        return int.from_bytes(stream[8 * index : 8 * index + 8], "little")

    def sign(first_byte: int, bit: int) -> int:
        return -1 if stream[first_byte + bit // 8] >> (bit % 8) & 1 else 1

    row = [0] * k
    if family == "counting":
        row[word(0) * k >> 64] = 1
    elif family == "hashing":
        row[word(0) * k >> 64] = sign(8, 0)
    elif family == "sparse":
        for t in range(s):
            row[t * (k // s) + (word(t) * (k // s) >> 64)] = sign(8 * s, t)
    elif family == "dasgupta":
        for t in range(s):
            row[word(t) * k >> 64] += sign(8 * s, t)
    elif family == "sign":
        row = [sign(0, j) for j in range(k)]
    elif family == "ternary":
        usable = [byte % 6 for byte in stream if byte < 252]
        row = [{0: 1, 1: -1}.get(value, 0) for value in usable[:k]]
    else:
        assert family == "gaussian"
        assert grid_bits is not None

        def deviate(w: int) -> float:
            if w < 2**52:
                return NormalDist().inv_cdf((w + 0.5) / 2**53)
            return -NormalDist().inv_cdf((2**53 - 1 - w + 0.5) / 2**53)

        row = [round(deviate(word(j) >> 11) * 2**grid_bits / k**0.5) for j in range(k)]
    return row
