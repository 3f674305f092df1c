"""Made the releases in this folder, once: ``python -m tests.golden.make NAME …`` makes one more.

Noise is real, so that they verify; so a release cannot be made again, and need not be. What they hold is noted in
expected.json. A release of a published format is never replaced: every later version must read it.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
from tests.matrices import publish_matrix

from dimly.mechanisms import Directions, Plan, Vocabulary
from dimly.mechanisms.projection.directions import Buckets
from dimly.privacy import Budget
from dimly.release import ReleaseWriter, Sketches

HERE = Path(__file__).parent
EXPECTED = HERE / "expected.json"
SEED = bytes(range(32))
NAMES = Vocabulary.listed(
    ["tea", "coffee", "milk", "naïve ☕", "", "a,b", 'say "so"', "7", "007", "x\ny", "2024-02-29", "true"]
)
BUCKETS = Directions.of_values(
    Buckets(5, SEED), [[i / 8, 0.25 - i / 16] for i in range(5)], origin="golden", kind="learned"
)
LEARNED = Directions.of_values(
    NAMES, [[(3 * i) % 7 / 8 - 0.5, i / 16, 0.25] for i in range(len(NAMES))], origin="golden ☕", kind="learned"
)
CATEGORIES = Directions.of_categories(NAMES, [f"kind {i % 4}" for i in range(len(NAMES))], origin="golden")
EXCEPTED = ("format-2-categories-text", "format-2-excepted-int64")
"""Their promise excepts volunteers."""
TEXT_IDS = ["", "007", "7", 'Ann "A", jr.', "Zoë", "line\nbreak", "日本", "😀", "user 10", "user 9"]


def plans() -> dict[str, Plan]:
    """Return one plan for each published layout; the name says format, layout and type of user."""
    return {
        "format-1-sketches-int64": Plan.of("counting+laplace", Budget(1.0), k=16, seed=SEED, stream=1),
        "format-1-sketches-text": Plan.of(
            "gaussian+gaussian", Budget(2.0, 1e-6), k=8, seed=SEED, vocabulary=NAMES, stream=1
        ),
        "format-1-sketches-int32": Plan.of(
            "sparse+gaussian",
            Budget(1.0, 1e-6),
            k=12,
            blocks=4,
            seed=SEED,
            resolution=4,
            dtype="int32",
            unit="column",
            stream=1,
        ),
        "format-1-randomized-response": Plan.of("randomized-response", Budget(1.0), vocabulary=NAMES),
        "format-1-noisy-distances": Plan.of("noisy-distances", Budget(1.0, 1e-6), n_attributes=12, n_users=20),
        "format-2-directions-int64": Plan.of(
            "directions+laplace", Budget(1.0), directions=LEARNED, unit="column", resolution=2
        ),
        "format-2-buckets-int64": Plan.of("directions+laplace", Budget(1.0), directions=BUCKETS),
        "format-2-categories-text": Plan.of("directions+gaussian", Budget(2.0, 1e-6), directions=CATEGORIES),
        "format-2-stream-2-int64": Plan.of("hashing+laplace", Budget(1.0), k=16, seed=SEED),
        "format-2-stream-2-text": Plan.of("ternary+gaussian", Budget(2.0, 1e-6), k=8, seed=SEED, vocabulary=NAMES),
        "format-2-excepted-int64": Plan.of("randomized-response", Budget(1.0), vocabulary=NAMES),
    }


def make(name: str) -> None:
    """Make one release, and note what it holds."""
    plan = plans()[name]
    text = "text" in name or "distances" in name
    ids = TEXT_IDS if text else [-(2**63), -7, 0, 1, 2, 10, 100, 2**40, 2**62, 2**63 - 1]
    people = np.random.default_rng(4).random((len(ids), len(NAMES))) < 0.4
    named = plan.directions is not None or (plan.vocabulary is not None and plan.vocabulary.sha256)
    attributes = NAMES if named else None
    sketches = publish_matrix(people, plan, users=ids, attributes=attributes)
    with ReleaseWriter(HERE / name, plan, user_type="text" if text else "int64") as writer:
        writer.write_part(0, sketches.users, sketches.values)
        if plan.directions is not None:
            writer.write_directions()
        if plan.vocabulary is not None:
            vocabulary = NAMES if plan.vocabulary.sha256 else Vocabulary.numbered(plan.vocabulary.size)
            writer.write_vocabulary(vocabulary)
            if plan.projection is not None:
                writer.write_projection(vocabulary)
        manifest = writer.seal(
            roster="found" if text else "given",
            pseudonyms="distances" in name,
            volunteers=name in EXCEPTED,
            ledger="golden" if text else None,
            private=sketches.private,
        )
        writer.publish()
    expected = json.loads(EXPECTED.read_text(encoding="utf-8")) if EXPECTED.exists() else {}
    expected[name] = {"release": manifest.release, "users": sketches.users.tolist(), "values": digest(sketches)}
    EXPECTED.write_text(json.dumps(expected, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def digest(sketches: Sketches) -> str:
    """Return SHA-256 of the published numbers, row after row, little-endian."""
    values = np.asarray(sketches.values)
    return hashlib.sha256(values.astype(values.dtype.newbyteorder("<")).tobytes()).hexdigest()


if __name__ == "__main__":
    for chosen in sys.argv[1:]:
        make(chosen)
