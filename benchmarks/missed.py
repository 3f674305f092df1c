"""Why a target is missed, next to the benchmarks: the page says it beside by how much."""

from typing import NamedTuple

DENSE = ("sign", "ternary", "gaussian")


class Reason(NamedTuple):
    """A reason for the cases of a benchmark that begin with ``case`` and the peers that begin with ``peer``."""

    benchmark: str
    case: str
    peer: str
    text: str


REASONS = (
    Reason(
        "noise",
        "gaussian, σ = 1,000 steps",
        "NumPy",
        "The table has 26,433 weights: the first 16 random bits seldom decide between so many, so that most samples take a "
        "second look, in a table that does not fit in the first cache. Sketches need no such scale; noise on distances does.",
    ),
    Reason(
        "randomized-response",
        "",
        "NumPy",
        "Ours packs eight flips into a byte, each with an exact probability of 64 bits and more; the peer's flips stay "
        "bytes, are not applied to anybody, and are neither secure nor exact.",
    ),
    *(
        Reason(
            "sketch",
            family,
            "SparseRandomProjection",
            "A dense row has k entries, the peer's k/√d: it adds up fewer numbers for each attribute. That is what the "
            "families counting, hashing and sparse are for.",
        )
        for family in DENSE
    ),
    *(
        Reason(
            "sketch",
            family,
            "",
            "A dense P: as many sums for each attribute as the peer's dense P, n × weight × k. What is left is narrower "
            "integers and faster noise.",
        )
        for family in DENSE
    ),
    Reason(
        "sketch",
        "",
        "SparseRandomProjection",
        "Where people have many attributes, or sketches are short, sums in memory are all there is to do, and the peer's "
        "P has few entries too (k/√d in a row).",
    ),
    Reason(
        "sketch",
        "",
        "GaussianRandomProjection",
        "With few attributes to each person the dense product is cheap, and most of what is left is drawing n × k numbers, "
        "where ours is five times as fast, and not twelve.",
    ),
    Reason(
        "sketch",
        "",
        "FeatureHasher",
        "Where sketches are long and people have few attributes, both spend their time on n × k numbers of noise.",
    ),
    Reason(
        "tables",
        "text",
        "DuckDB",
        "Ids and attributes as text are read twice and coded as integers before they are sorted; the peer gets integers.",
    ),
    Reason(
        "neighbor-query",
        "denoised",
        "",
        "Denoising needs the second moments of everybody before anybody is compared: one more pass over what was read.",
    ),
    Reason(
        "neighbor-query",
        "",
        "",
        "In small releases what does not grow with people, such as preparing the question, is a part of the time.",
    ),
    Reason(
        "memory",
        "",
        "",
        "Up to its limit publishing uses the memory that it is given, half of it for sorting, and the smaller table "
        "fits into that: the peak grows until the limit, and stays there.",
    ),
)


def reason_for(benchmark: str, case: str, peer: str) -> str | None:
    """Return the first reason that fits; None if nobody has given one yet."""
    for reason in REASONS:
        if reason.benchmark == benchmark and case.startswith(reason.case) and peer.startswith(reason.peer):
            return reason.text
    return None
