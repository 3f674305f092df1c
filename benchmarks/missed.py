"""Why a target is missed, next to the benchmarks: the page says it beside by how much."""

import re
from typing import NamedTuple

SEVERAL = "(sparse|dasgupta),"
DENSE = "(sign|ternary|gaussian),"
FEW_ATTRIBUTES = ".*, weight 10,"


class Reason(NamedTuple):
    """A reason for cases of a benchmark that begin as the pattern ``case`` does, and peers that begin with ``peer``."""

    benchmark: str
    case: str
    peer: str
    text: str


REASONS = (
    Reason(
        "noise",
        "gaussian, σ",
        "NumPy",
        "The table has 26,433 weights: for 9 % of the samples the first 16 random bits do not decide, against 0.06 % "
        "with a table of counting, and those are searched one by one.",
    ),
    Reason(
        "randomized-response",
        "",
        "NumPy",
        "More than half of the time goes into the AES-256 keystream, eight bits for each flip. The peer's flips are "
        "neither secure nor exact, are not packed and not applied to anybody.",
    ),
    Reason(
        "sketch",
        DENSE,
        "SparseRandomProjection",
        "A dense row of P has k entries and the peer's k/√d, so that it adds up fewer numbers for each attribute. That "
        "is what the families of few entries are for.",
    ),
    Reason(
        "sketch",
        DENSE,
        "FeatureHasher",
        "A dense row of P has k entries and the peer's one.",
    ),
    Reason(
        "sketch",
        DENSE,
        "GaussianRandomProjection",
        "As many sums as the peer's, weight × k for each person: what is gained comes from narrower integers and "
        "faster noise.",
    ),
    Reason(
        "sketch",
        FEW_ATTRIBUTES,
        "",
        "With ten attributes to a person much of the time, ours and the peer's, goes into drawing k numbers of noise, "
        "where ours is six or seven times as fast.",
    ),
    Reason(
        "sketch",
        SEVERAL,
        "",
        "Eight entries in a row of P in place of one: eight times the sums of counting and hashing.",
    ),
    Reason(
        "sketch",
        "",
        "SparseRandomProjection",
        "The peer's P has k/√d entries in a row, 0.3 to 10 here, where ours has one: where they are few there is "
        "little to save.",
    ),
    Reason(
        "sketch",
        ".*, weight 100, k = 256",
        "GaussianRandomProjection",
        "Projecting alone is 13 (d = 1,000) to 20 times (d = 10,000) as fast as the peer's; but half of our time goes "
        "into drawing k numbers of noise, where ours is six or seven times as fast.",
    ),
    Reason(
        "sketch",
        "",
        "GaussianRandomProjection",
        "The peer adds k numbers for each attribute, many at a time: at a small k that costs eight times our one, "
        "which is added alone.",
    ),
    Reason(
        "sketch",
        "",
        "FeatureHasher",
        "With long sketches half of our time and much of the peer's goes into drawing k numbers of noise, where ours "
        "is six or seven times as fast.",
    ),
    Reason(
        "tables",
        "text",
        "DuckDB",
        "Ids and attributes as text are coded as integers before they are sorted; the peer gets integers.",
    ),
    Reason(
        "neighbor-query",
        "denoised",
        "",
        "Denoising multiplies every point by a matrix before it is compared: work that reading the file does not have.",
    ),
    Reason(
        "memory",
        "",
        "",
        "Up to its limit publishing uses the memory that it is given, half of it for sorting, which the smaller table "
        "fills less: the peak grows until the limit, and stays there.",
    ),
)


def reason_for(benchmark: str, case: str, peer: str) -> str | None:
    """Return the first reason that fits; None if nobody has given one yet."""
    for reason in REASONS:
        if reason.benchmark == benchmark and re.match(reason.case, case) and peer.startswith(reason.peer):
            return reason.text
    return None
