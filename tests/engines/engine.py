"""What the contract asks of an engine: one way in, whatever runs behind it."""

from pathlib import Path
from typing import Any, Final, Protocol

from tests.streams import NO_FLIPS, NO_NOISE

from dimly.analyst.release import Release
from dimly.api import open_release, publish_table
from dimly.curator.randomness import WordSource
from dimly.mechanisms import Plan


class Engine(Protocol):
    """Publishes tables with injected words, by default such that no noise is added."""

    def publish(self, source: Any, plan: Plan, *, words: WordSource | None = None, **options: Any) -> Release:
        """Publish into the folder ``out``, or grow a release; the options are those of :func:`dimly.publish`."""


def silence(plan: Plan) -> WordSource:
    """Return words by which a plan adds no noise."""
    return NO_FLIPS if plan.dtype == "bit" else NO_NOISE


class LocalEngine:
    """DuckDB, threads and Parquet in this process."""

    def publish(self, source: Any, plan: Plan, *, words: WordSource | None = None, **options: Any) -> Release:
        """Publish, and open what was made."""
        options = {"memory": 1 << 29, "threads": 2} | options
        published = publish_table(source, plan, words=lambda: words or silence(plan), **options)
        assert published.path == Path(options.get("append") or options["out"])
        release = open_release(published.path)
        assert not release.private  # injected words leave their stamp
        return release


ENGINES: Final[dict[str, Engine]] = {"local": LocalEngine()}
