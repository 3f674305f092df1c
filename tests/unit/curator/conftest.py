"""A private database for each test."""

from collections.abc import Iterator

import pytest

from dimly.curator.tables.database import PrivateDatabase


@pytest.fixture
def database() -> Iterator[PrivateDatabase]:
    with PrivateDatabase(memory=1 << 28, threads=2) as opened:
        yield opened
