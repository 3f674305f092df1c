"""Why a target is missed, next to the benchmarks: the page says it beside by how much."""

from typing import NamedTuple

SEVERAL = ("sparse", "dasgupta")
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
    *(
        Reason(
            "sketch",
            family,
            "SparseRandomProjection",
            "A dense row of P has k entries and the peer's k/√d, so that it adds up fewer numbers for each attribute. "
            "That is what the families with few entries are for.",
        )
        for family in DENSE
    ),
    *(
        Reason(
            "sketch",
            family,
            "",
            "A dense P takes as many sums as the peer's dense P does, weight × k for each person. What is gained comes "
            "from narrower integers and faster noise.",
        )
        for family in DENSE
    ),
    *(
        Reason(
            "sketch",
            family,
            "",
            "Eight entries in a row of P in place of one: eight times the sums of counting and hashing.",
        )
        for family in SEVERAL
    ),
    Reason(
        "sketch",
        "",
        "SparseRandomProjection",
        "The peer's P has few entries too, k/√d in a row, and the fewer there are the less is left to win.",
    ),
    Reason(
        "sketch",
        "",
        "GaussianRandomProjection",
        "With few attributes to a person the dense product is cheap, and what is left is drawing n × k numbers: most "
        "of our time and of the peer's, where ours is some five times as fast.",
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
        if reason.benchmark == benchmark and case.startswith(reason.case) and peer.startswith(reason.peer):
            return reason.text
    return None
