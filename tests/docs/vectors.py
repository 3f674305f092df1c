"""Projection rows as the page writes them."""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "projections.md"


def _block(language: str) -> str:
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)
    text: str = block
    return text


VECTORS: dict[str, Any] = json.loads(_block("json"))
SEED = bytes.fromhex(VECTORS["seed"])


def _page_python() -> dict[str, Any]:
    """Return what the page's own Python defines."""
    names: dict[str, Any] = {"print": lambda *_: None}
    exec(compile(_block("python"), "projections.md", "exec"), names)  # noqa: S102
    return names


siphash: Callable[[bytes, bytes], int] = _page_python()["siphash"]
_second_stream: Callable[..., bytes] = _page_python()["stream"]


def _first_stream(family: str, k: int, s: int, text: str) -> bytes:
    def u32(number: int) -> bytes:
        return number.to_bytes(4, "little")

    name = text.encode("utf-8")
    pieces = (b"dimly/1", b"\x00", family.encode("ascii"), b"\x00", u32(k), u32(s), SEED, u32(len(name)), name)
    return hashlib.shake_256(b"".join(pieces)).digest(16 * k + 16 * s + 64)


def decode(  # noqa: C901
    family: str, k: int, s: int, text: str, grid_bits: int | None = None, *, version: int
) -> list[int]:
    """Read the page word by word: plain Python integers, one attribute at a time."""
    hashed = family in {"counting", "hashing", "sparse", "dasgupta"}
    if version == 1:
        stream = _first_stream(family, k, s, text)
    else:
        stream = _second_stream(family, k, s, SEED, text, s if hashed else k + 8)

    def word(index: int) -> int:
        return int.from_bytes(stream[8 * index : 8 * index + 8], "little")

    def bit(first_byte: int, number: int) -> int:
        return -1 if stream[first_byte + number // 8] >> (number % 8) & 1 else 1

    def sign(t: int) -> int:
        return bit(8 * s, t) if version == 1 else 1 - 2 * (word(t) & 1)

    row = [0] * k
    if family == "counting":
        row[word(0) * k >> 64] = 1
    elif family == "hashing":
        row[word(0) * k >> 64] = sign(0)
    elif family == "sparse":
        for t in range(s):
            row[t * (k // s) + (word(t) * (k // s) >> 64)] = sign(t)
    elif family == "dasgupta":
        for t in range(s):
            row[word(t) * k >> 64] += sign(t)
    elif family == "sign":
        row = [bit(0, j) for j in range(k)]
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
