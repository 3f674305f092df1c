"""One DuckDB for many small publications: to start and end one takes a third of the time of each.

Every publication gets a catalog of its own in it, which is empty at first and removed at the end. Settings are the
product's own, and locked as ever. So what one publication leaves behind cannot be seen by the next one.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from dimly.curator.tables import database

_LIFE: Final = 500
"""Publications by one DuckDB; then another one starts, in case that something grows in it."""


class AtOnce:
    """Does what it is asked while its caller waits: a thread for each query is for Ctrl-C, and nobody presses it."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def submit(self, call: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Return a future that is done."""
        done: Future[Any] = Future()
        try:
            done.set_result(call(*arguments))
        except Exception as error:  # noqa: BLE001 - as an executor does
            done.set_exception(error)
        return done

    def shutdown(self) -> None: ...


class Borrowed:
    """A connection whose tables and views are in one catalog, and so are those of its cursors."""

    def __init__(self, connection: Any, catalog: str, *, attached: list[str] | None = None) -> None:
        self._connection, self._catalog = connection, catalog
        self._attached = attached
        connection.execute(f"USE {catalog}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str, parameters: Any = None) -> Any:
        """Run a statement, and take note of what is attached by it."""
        if self._attached is not None and sql.startswith("ATTACH ? AS "):
            self._attached.append(sql.split('"')[1])
        return self._connection.execute(sql, parameters)

    def cursor(self) -> "Borrowed":
        """Return a second connection with the same catalog."""
        return Borrowed(self._connection.cursor(), self._catalog)

    def close(self) -> None:
        """Forget the catalog, if this is the one that it was made for."""
        if self._attached is not None:
            self._connection.execute("USE memory")
            for name in (self._catalog, *self._attached):
                self._connection.execute(f'DETACH DATABASE IF EXISTS "{name}"')
        self._connection.close()


@contextmanager
def one_duckdb(folder: Path) -> Iterator[None]:
    """While entered, publications of this process share a DuckDB, which would spill into the folder."""
    connect = database._connect
    running: dict[Any, Any] = {}
    numbers = count()

    def lend(memory: int, threads: int, _: Path, **more: Any) -> Any:
        number = next(numbers)
        if number % _LIFE == 0:
            while running:
                running.popitem()[1].close()
        key = threads, *more.items()
        if key not in running:
            running[key] = connect(memory, threads, folder, **more)
        own = running[key].cursor()
        catalog = f"publication_{number}"
        own.execute(f"ATTACH ':memory:' AS {catalog}")
        return Borrowed(own, catalog, attached=[])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_connect", lend)
        patch.setattr(database, "ThreadPoolExecutor", AtOnce)
        yield
    for one in running.values():
        one.close()
