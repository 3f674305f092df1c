"""The Parquet file of profiles: noisy counts of attributes in each segment, with shares and sizes."""

import hashlib
import json
import math
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dimly.display import Shown, data_frame, percent
from dimly.errors import ParameterError, ReleaseError, check_path
from dimly.mechanisms.error.survey_quantiles import noise_between
from dimly.mechanisms.survey_plan import SurveyPlan
from dimly.release.documents.survey_file import promise

_KEY: Final = b"dimly.profiles"
_VERSION: Final = 2
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=False, eq=False, kw_only=True)
class Profiles:
    """Noisy counts of attributes in each segment. Public. Made by :func:`dimly.survey` with ``by``.

    Attributes
    ----------
    plan : SurveyPlan
        What was asked; ``plan.release`` is the release whose segments they are.
    attributes : tuple of str
        The public list.
    sizes : ndarray of int64
        People of each segment.
    counts : ndarray of int64 (segments, attributes)
        People of a segment who have an attribute, with noise.
    spread : (int, int)
        Between which values the noise of a count lies with 95 %.
    private : bool
    ledger : str or None
        The dataset that was charged.
    """

    plan: SurveyPlan
    attributes: tuple[str, ...]
    sizes: Integers
    counts: Integers
    spread: tuple[int, int]
    private: bool = True
    ledger: str | None = None

    @cached_property
    def id(self) -> str:
        """SHA-256 of all that the file says, in whatever order the list of attributes was."""
        order = sorted(range(len(self.attributes)), key=self.attributes.__getitem__)
        return _digest(self._facts(), [self.attributes[i] for i in order], self.counts[:, order])

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of each segment's people who have each attribute, estimated."""
        shares: NDArray[np.float64] = self.counts / np.maximum(self.sizes, 1)[:, None]
        return shares

    @property
    def apart(self) -> NDArray[np.float64]:
        """How much more often a segment's people have an attribute than all others: a difference of shares."""
        rest = self.counts.sum(axis=0) - self.counts
        others = np.maximum(self.sizes.sum() - self.sizes, 1)[:, None]
        apart: NDArray[np.float64] = self.shares - rest / others
        return apart

    def table(self) -> pa.Table:
        """Return one row for each segment and attribute, the most telling attributes of each segment first."""
        segments, width = self.counts.shape
        apart, shares = self.apart, self.shares
        # By noisy counts and then by name: both are public.
        names = np.argsort(np.array(self.attributes, dtype=object), kind="stable")
        order = np.stack([names[np.argsort(-apart[s, names], kind="stable")] for s in range(segments)])
        rows = np.repeat(np.arange(segments), width), order.reshape(-1)
        counts, most = self.counts[rows], np.repeat(self.sizes, width)
        low, high = self.spread
        columns: dict[str, Any] = {
            "segment": pa.array(rows[0].astype(np.int32)),
            "attribute": pa.array(self.attributes, pa.string()).take(pa.array(rows[1])),
            "people": most,
            "count": counts,
            "low": np.clip(counts - high, 0, most),
            "high": np.clip(counts - low, 0, most),
            "share": shares[rows],
            "apart": apart[rows],
        }
        return pa.table(columns)

    def strongest(self, segment: int, most: int) -> list[dict[str, Any]]:
        """Return the rows of a segment's most telling attributes."""
        rows: list[dict[str, Any]] = self.table().slice(segment * len(self.attributes), most).to_pylist()
        return [row for row in rows if row["segment"] == segment]

    def telling(self, segment: int, most: int) -> list[tuple[str, float, float]]:
        """Return the attributes that a segment's people have more often than others do, and both shares.

        Only what noise would hardly have made: beyond what it does to any of all counts in 19 of 20 such files.
        """
        found = [row for row in self.strongest(segment, most) if row["apart"] > self._margin(segment)]
        return [(row["attribute"], row["share"], row["share"] - row["apart"]) for row in found]

    def _margin(self, segment: int) -> float:
        """Return what noise adds to a segment's share less that of others, at most, in 19 of 20 such files.

        By Chernoff's bound: of m counts with Laplace noise of scale b, none exceeds (ln(20m) − Σ ln(1 − (b·a·t)²))/t
        for any t, where a is 1/people for the segment's own count, and 1/others for that of each other segment. The
        moments of discrete noise are below those of continuous noise.
        """
        scale = max(map(abs, self.spread)) / math.log(20)  # of which 95 % are within b·ln 20
        if not scale:
            return 0.0
        own = scale / max(int(self.sizes[segment]), 1)
        other = scale / max(int(self.sizes.sum() - self.sizes[segment]), 1)
        t = np.linspace(0, 1, 1001)[1:-1] / max(own, other)
        moments = np.log1p(-((own * t) ** 2)) + (len(self.sizes) - 1) * np.log1p(-((other * t) ** 2))
        return float(((math.log(20 * self.counts.size) - moments) / t).min())

    def _repr_html_(self) -> str:
        rows = [
            (s, f"{size:,}", ", ".join(f"{row['attribute']} ({percent(row['share'])})" for row in self.strongest(s, 5)))
            for s, size in enumerate(self.sizes.tolist())
        ]
        return Shown("Profiles of segments", (), ("segment", "people", "has more often than others"), rows).html()

    def to_pandas(self) -> Any:
        """Return :meth:`table` as a data frame.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        return data_frame(self.table().to_pydict())

    def content(self) -> bytes:
        """Return the file."""
        facts = self._facts() | {"id": self.id}
        sink = pa.BufferOutputStream()
        pq.write_table(self.table().replace_schema_metadata({_KEY: json.dumps(facts).encode()}), sink)
        return bytes(sink.getvalue())

    def _facts(self) -> dict[str, Any]:
        facts = {
            "profiles": _VERSION,
            "plan": self.plan.fields(),
            "plan_digest": self.plan.digest,
            "guarantee": promise(self.plan, roster="given", private=self.private),
            "people": self.sizes.tolist(),
            "ledger": self.ledger,
        }
        return facts if self.private else facts | {"not_private": True}


def _digest(facts: dict[str, Any], names: list[str], counts: Integers) -> str:
    """Return the SHA-256 of facts and counts, with attributes in the order of their names."""
    digest = hashlib.sha256(json.dumps([facts, names], sort_keys=True).encode())
    digest.update(np.ascontiguousarray(counts, "<i8").tobytes())
    return digest.hexdigest()


def read_profiles(path: str | os.PathLike[str]) -> Profiles:
    """Read a file of profiles, made by ``dimly survey --by``. Attributes come in the order of their names.

    Raises
    ------
    ParameterError
        If there is no such file, or it holds no profiles.
    ReleaseError
        If it does, and was changed.
    """
    check_path("profiles", path)
    name = os.fspath(path)
    try:
        table = pq.read_table(path, partitioning=None)
    except (pa.ArrowException, OSError):
        raise _no_profiles(name) from None
    try:
        facts = json.loads((table.schema.metadata or {})[_KEY])
        plan, sizes = SurveyPlan.model_validate_json(json.dumps(facts["plan"])), np.array(facts["people"], np.int64)
        private = "not_private" not in facts
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise _no_profiles(name) from None
    if plan.release is None or sizes.ndim != 1 or not len(sizes):
        raise _no_profiles(name)
    try:
        told = table.select(["segment", "count", "attribute"])
        kinds = told.schema.types
        fits = all(map(pa.types.is_integer, kinds[:2])) and pa.types.is_string(kinds[2])
        if not fits or any(column.null_count for column in told.columns):
            raise _changed_profiles(name)
        segments, counts = (column.to_numpy().astype(np.int64) for column in told.columns[:2])
        listed = told.column(2).to_pylist()
        names = sorted(set(listed))
        if len(sizes) * len(names) != len(listed):  # before memory is taken for as many
            raise _changed_profiles(name)
        places = np.array([*map({name: place for place, name in enumerate(names)}.get, listed)], np.int64)
        rows = np.full((len(sizes), len(names)), -1, np.int64)
        rows[segments, places] = np.arange(len(segments))  # refuses a segment that is none
    except (pa.ArrowException, KeyError, IndexError, TypeError, ValueError):
        raise _changed_profiles(name) from None
    if (rows < 0).any() or (segments < 0).any() or facts.get("plan_digest") != plan.digest:
        raise _changed_profiles(name)
    # What the first version's digest is of depends on the order of a list that the file does not hold.
    told_of = {key: value for key, value in facts.items() if key != "id"}
    if facts.get("profiles") != 1 and facts.get("id") != _digest(told_of, names, counts[rows]):
        raise _changed_profiles(name)
    noise = plan.noise("profiles")
    return Profiles(
        plan=plan,
        attributes=tuple(names),
        sizes=sizes,
        counts=counts[rows],
        spread=noise_between(noise.cells()),
        private=private,
        ledger=facts.get("ledger"),
    )


def _no_profiles(name: str) -> ParameterError:
    return ParameterError(
        f"profiles must be a Parquet file made by dimly survey --by, got {name!r}, which is none. Make one by dimly "
        "survey TABLE --by segments.parquet --vocabulary FILE --epsilon 0.1 -o profiles.parquet."
    )


def _changed_profiles(name: str) -> ReleaseError:
    return ReleaseError(
        f"{name} must hold one count for each segment and attribute, and have the digests that it states. It was "
        "changed: make it again."
    )
