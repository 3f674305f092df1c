"""Why a target is missed, next to the benchmarks: the page says it beside by how much."""

import re
from typing import NamedTuple

SEVERAL = "(sparse|dasgupta),"
SEVERAL_AS_MANY = "(sparse|dasgupta), d = (1,000, weight 100, k = 256|10,000, weight 100, k = 1,024)$"
"""Where k/√d, the entries in a row of scikit-learn's P, are about as many as ours."""
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
        "The table has 26,433 weights. The array that sixteen bits are looked up in takes 128 KiB instead of 64, and "
        "for 5 % of the samples sixteen bits do not decide, against 0.02 % with a table of counting. More than half "
        "of the time is the look-up, a fifth AES, and an eighth the search for those 5 %.",
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
        "A dense row of P has k entries and the peer's only k/√d, so the peer adds up fewer numbers for each "
        "attribute. That is what the families of few entries are for.",
    ),
    Reason(
        "sketch",
        DENSE,
        "FeatureHasher",
        "A dense row of P has k entries, and the peer's has one.",
    ),
    Reason(
        "sketch",
        DENSE,
        "GaussianRandomProjection",
        "Ours adds up as many numbers as the peer, weight × k for each person. The gain comes from narrower integers "
        "and faster noise only.",
    ),
    Reason(
        "sketch",
        FEW_ATTRIBUTES,
        "FeatureHasher",
        "With ten attributes per person, much of the time of both goes into drawing k numbers of noise, where ours is "
        "five to seven times as fast.",
    ),
    Reason(
        "sketch",
        FEW_ATTRIBUTES,
        "",
        "With ten attributes per person, most of the peer's time goes into drawing k numbers of noise, where ours is "
        "five to seven times as fast. Projecting alone is about as fast as the peer's, and ours also checks people.",
    ),
    Reason(
        "sketch",
        SEVERAL_AS_MANY,
        "SparseRandomProjection",
        "The peer's P has as many entries in a row as ours, eight to ten. Projecting alone is two to three times as "
        "fast as the peer's. The rest is noise, five to seven times as fast, and checks that the peer does not make.",
    ),
    Reason(
        "sketch",
        SEVERAL,
        "SparseRandomProjection",
        "Our P has eight entries in a row and the peer's k/√d, which is 0.3 to 2.6 in these cases. So ours adds up "
        "three to thirty times as many numbers for each attribute.",
    ),
    Reason(
        "sketch",
        SEVERAL,
        "GaussianRandomProjection",
        "The peer adds up k numbers for each attribute, many at a time, and ours eight, one by one. Projecting alone "
        "is twice (k = 64) to five times (k = 256, d = 1,000) as fast, but ours also checks people and saturates.",
    ),
    Reason(
        "sketch",
        SEVERAL,
        "FeatureHasher",
        "The peer loses time because it hashes text, but saves time because a row of its P has one entry, and ours "
        "eight.",
    ),
    Reason(
        "sketch",
        "",
        "SparseRandomProjection",
        "The peer's P has k/√d entries in a row, at k = 256 and d = 1,000,000 only 0.3, and ours has one. Projecting "
        "alone is four (d = 1,000,000) to seventeen times (weight 1,000) as fast, but is only about a third of our "
        "time. The rest is noise, five to seven times as fast, and checks that the peer does not make.",
    ),
    Reason(
        "sketch",
        "",
        "FeatureHasher",
        "With long sketches most of our time and much of the peer's goes into drawing k numbers of noise, where ours "
        "is five to seven times as fast.",
    ),
    Reason(
        "tables",
        "integers",
        "DuckDB: sort, write; our part writer",
        "Half of our processor time goes into encoding the part files, which the peer does, too. Noise takes a "
        "seventh, reading and numbering the rows an eighth, and projecting and sorting them a tenth. The peer sorts "
        "and writes the rows instead, which takes it two fifths of our time.",
    ),
    Reason(
        "tables",
        "text",
        "publishing",
        "Reading and numbering the rows takes four to seven times as long as with integers, and everything else about "
        "as long. DuckDB takes a third of that time to read the texts and hand them over. The rest is hashing each "
        "text, looking it up in a table that no longer fits into the cache, and comparing it with what is there.",
    ),
    Reason(
        "sketcher",
        ".*, 100 attributes, public list",
        "",
        "With a public list every attribute is looked up in it, one by one, which takes a tenth of the time. Without a "
        "list the target is met.",
    ),
    Reason(
        "directions",
        "matrix",
        "counting",
        "An attribute adds to every number of a row, where counting adds to one. Noise and checks are the same.",
    ),
    Reason(
        "start-up",
        "dimly plan",
        "python",
        "Importing NumPy, Typer, pydantic and python-flint alone takes one and a half times to twice as long as the "
        "peer. The rest is importing our own modules (half of it plans with their proofs) and making validators for "
        "the command's options. If the planner chooses, it compares some two thousand k, which takes less than "
        "half of the peer's time.",
    ),
    Reason(
        "start-up",
        "dimly publish",
        "python",
        "Importing the libraries that a dry run uses, and nothing of ours, takes about two and a half times as long as "
        "the peer. These are the libraries of a plan, DuckDB, which reads and checks the table, and Arrow's reader of "
        "Parquet. Besides, Python looks through all objects as it ends, because DuckDB's bindings would warn of what "
        "was not collected.",
    ),
    Reason(
        "start-up",
        "dimly distance",
        "python",
        "It imports the same libraries as for a plan, and Arrow's reader of Parquet. The rest is our own modules: "
        "those that prove the release's plan, and those that answer.",
    ),
    Reason(
        "neighbor-graph",
        "",
        "scikit-learn",
        "Both take about half a second at this size. Ours also estimates each of the 100,000 distances with its "
        "interval, at about 1.3 µs each, which the peer does not.",
    ),
    Reason(
        "neighbor-query",
        "denoised",
        "",
        "Denoising multiplies every point by a matrix before it is compared, which reading the file does not.",
    ),
    Reason(
        "memory",
        "",
        "",
        "Publishing uses the memory that it is given, much of it for sorting, and the smaller table fills less of "
        "that. So the peak grows up to the limit, and stays there.",
    ),
)


def reason_for(benchmark: str, case: str, peer: str) -> str | None:
    """Return the first reason that fits; None if nobody has given one yet."""
    for reason in REASONS:
        if reason.benchmark == benchmark and re.match(reason.case, case) and peer.startswith(reason.peer):
            return reason.text
    return None
