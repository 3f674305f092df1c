import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from tests.exported import FAMILIES, LOST, check_neighbors, named, saturated
from tests.folders import ODD_IDS, release_folder
from tests.postgres import server, sql
from tests.releases import PEOPLE, release_of

from dimly.analyst import Release
from dimly.analyst.export import postgres as export_postgres
from dimly.analyst.export.exported_points import Exported
from dimly.analyst.export.postgres import _Form
from dimly.analyst.release import open_release
from dimly.api import publish
from dimly.errors import DataError, DimlyError, MissingExtraError, ParameterError
from dimly.mechanisms import Plan
from dimly.privacy import Budget

__all__ = ["server", "sql"]

NEAREST = """
    SELECT other.user_id, (other.point <-> one.point) ^ 2 - other.excess - one.excess
    FROM people AS other, people AS one WHERE one.user_id = %s AND other.user_id <> one.user_id
    ORDER BY other.point <-> one.point LIMIT %s
"""
TABLES = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY 1"


def column(sql: Any, query: str) -> list[Any]:
    return [row[0] for row in sql.execute(query).fetchall()]


def indexes(sql: Any) -> dict[str, str]:
    return dict(sql.execute("SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'").fetchall())


@pytest.mark.parametrize("mechanism", FAMILIES)
def test_sql_finds_the_neighbors_of_the_release(mechanism: str, server: str, sql: Any) -> None:
    release = release_of(mechanism)
    release.to_pgvector(server, table="people", index="flat")
    for who in (0, 29):
        found, estimates = zip(*sql.execute(NEAREST, [who, 20]).fetchall(), strict=True)
        check_neighbors(release, who, found)
        np.testing.assert_allclose(estimates, release.distances(who, found).value, rtol=1e-3, atol=0.05)


def test_tables_say_what_they_are(tmp_path: Path, server: str, sql: Any) -> None:
    release = open_release(release_folder(tmp_path / "release"))
    told: list[tuple[int, int]] = []
    said = release.to_pgvector(server, table="people", progress=lambda *done: told.append(done))
    assert said == Exported.of(release._sketches).about
    with sql.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        assert cursor.execute("SELECT * FROM people_about").fetchall() == [said]
    assert said["release"] is not None
    for table, other in (("people", "people_about"), ("people_about", "people")):
        comment = column(sql, f"SELECT obj_description('{table}'::regclass, 'pg_class')")[0]
        assert comment.startswith(f"Dimly export: points of people by counting+laplace, plan {release.plan.digest};")
        assert comment.endswith(f"see {other}")
    assert column(sql, TABLES) == ["people", "people_about"]
    assert column(sql, "SELECT user_id FROM people ORDER BY 1") == release.users.tolist()
    names = "SELECT conname FROM pg_constraint WHERE conrelid = 'people'::regclass AND conname LIKE '%dimly%'"
    assert column(sql, names) == []
    assert told == [(30, 30)]
    assert indexes(sql) == {
        "people_pkey": "CREATE UNIQUE INDEX people_pkey ON public.people USING btree (user_id)",
        "people_hnsw": "CREATE INDEX people_hnsw ON public.people USING hnsw (point vector_l2_ops)",
    }


def test_ids_of_every_kind(server: str, sql: Any) -> None:
    named(ODD_IDS).to_pgvector(server, table="people")
    assert sorted(column(sql, "SELECT user_id FROM people")) == sorted(ODD_IDS)
    limits = [int(np.iinfo(np.int64).min), -1, 0, int(np.iinfo(np.int64).max)]
    publish(PEOPLE[:4], Plan.of("hashing+laplace", Budget(1.0), k=4), users=limits).to_pgvector(
        server, table="others", index="flat"
    )
    assert column(sql, "SELECT user_id FROM others ORDER BY 1") == limits


def test_ids_that_postgresql_cannot_hold(server: str, sql: Any) -> None:
    with pytest.raises(DataError, match="user ids must not hold NUL for PostgreSQL"):
        named(["a", "secret\0"]).to_pgvector(server, table="people")
    long = [np.random.default_rng(0).bytes(9000).hex(), "b"]  # which does not compress
    with pytest.raises(DimlyError, match=r"ids must be shorter for an index.*Nothing was changed\.$") as caught:
        named(long).to_pgvector(server, table="people")
    assert long[0][:20] not in "".join(traceback.format_exception(caught.value))
    assert column(sql, TABLES) == []


def test_of_somebody_saturated_nothing_is_told(server: str, sql: Any) -> None:
    release = saturated()
    release.to_pgvector(server, table="people", index="flat")
    assert column(sql, "SELECT user_id FROM people WHERE point IS NULL AND excess IS NULL") == [LOST]
    found = [row[0] for row in sql.execute(NEAREST, [7, 30]).fetchall()]
    assert len(found) == 29
    assert found[-1] == LOST == release.neighbors(7, n=29, denoise=False).users[-1]


def test_denoised_points_rank_as_the_release_does(server: str, sql: Any) -> None:
    release = release_of("hashing+laplace")
    release.to_pgvector(server, table="people", denoise=True, index="flat")
    with pytest.raises(psycopg.errors.UndefinedColumn):
        sql.execute("SELECT excess FROM people")
    query = NEAREST.replace("(other.point <-> one.point) ^ 2 - other.excess - one.excess", "1")
    found = [row[0] for row in sql.execute(query, [5, 10]).fetchall()]
    assert found == release.neighbors(5, n=10).users.tolist()
    assert sql.execute("SELECT denoised, bias, dimension FROM people_about").fetchone() == (
        True,
        None,
        release.denoiser.rank,
    )


class TestReplacing:
    def test_only_if_told(self, server: str, sql: Any) -> None:
        release_of("hashing+laplace").to_pgvector(server, table="people")
        words = r"table must be a new one, but public.people\w* exists. Use overwrite"
        for left in ("people", "people_about"):  # either alone is in the way, too
            with pytest.raises(ParameterError, match=words):
                release_of("counting+laplace").to_pgvector(server, table="people")
            release_of("counting+laplace").to_pgvector(server, table="people", overwrite=True)
            assert column(sql, "SELECT mechanism FROM people_about") == ["counting+laplace"]
            sql.execute(f"DROP TABLE {'people_about' if left == 'people' else 'people'}")
        with pytest.raises(ParameterError, match=words):
            release_of("hashing+laplace").to_pgvector(server, table="people")
        release_of("hashing+laplace").to_pgvector(server, table="people", overwrite=True, index="flat")
        assert column(sql, "SELECT mechanism FROM people_about") == ["hashing+laplace"]
        assert list(indexes(sql)) == ["people_pkey"]
        assert column(sql, TABLES) == ["people", "people_about"]

    @pytest.mark.parametrize(
        "made",
        ["TABLE people (id int)", "TABLE people_about (id int)", "VIEW people AS SELECT 1", "SEQUENCE people"],
    )
    def test_never_what_is_not_ours(self, made: str, server: str, sql: Any) -> None:
        sql.execute(f"CREATE {made}")
        before = column(sql, TABLES)
        with pytest.raises(ParameterError, match=r"of an earlier export to be replaced, but public.people\w* is not"):
            release_of("hashing+laplace").to_pgvector(server, table="people", overwrite=True)
        assert column(sql, TABLES) == before

    def test_never_what_is_elsewhere(self, server: str, sql: Any) -> None:
        sql.execute("CREATE SCHEMA IF NOT EXISTS shop")
        release_of("hashing+laplace").to_pgvector(server, table="shop.people")
        sql.execute('CREATE SCHEMA IF NOT EXISTS "A ""b"')
        release_of("hashing+laplace").to_pgvector(
            psycopg.conninfo.make_conninfo(server, options='-c search_path="A\\ ""b",public'), table="people"
        )
        assert column(sql, 'SELECT mechanism FROM "A ""b".people_about') == ["hashing+laplace"]
        sql.execute('DROP SCHEMA "A ""b" CASCADE')
        dsn = psycopg.conninfo.make_conninfo(server, options="-c search_path=public,shop")
        release_of("counting+laplace").to_pgvector(dsn, table="people", overwrite=True)
        assert column(sql, "SELECT mechanism FROM shop.people_about") == ["hashing+laplace"]
        assert column(sql, "SELECT mechanism FROM people_about") == ["counting+laplace"]
        sql.execute("DROP SCHEMA shop CASCADE")

    def test_not_under_views(self, server: str, sql: Any) -> None:
        release_of("hashing+laplace").to_pgvector(server, table="people")
        sql.execute("CREATE VIEW mine AS SELECT user_id FROM people")
        with pytest.raises(ParameterError, match="table people must not be what views are made of"):
            release_of("counting+laplace").to_pgvector(server, table="people", overwrite=True)
        assert column(sql, "SELECT mechanism FROM people_about") == ["hashing+laplace"]

    def test_readers_do_not_wait(self, server: str, sql: Any) -> None:
        release_of("hashing+laplace").to_pgvector(server, table="people")
        seen: list[str] = []

        def read(*_: int) -> None:
            sql.execute("SET statement_timeout = '20s'")
            seen.extend(column(sql, "SELECT mechanism FROM people_about, people LIMIT 1"))

        release_of("counting+laplace").to_pgvector(server, table="people", overwrite=True, progress=read)
        assert seen == ["hashing+laplace"]

    def test_somebody_else_may_be_first(self, server: str, sql: Any) -> None:
        def be_second(*_: int) -> None:
            sql.execute("CREATE TABLE people (id int)")

        with pytest.raises(DimlyError, match=r"was made by somebody else meanwhile. Nothing was changed"):
            release_of("hashing+laplace").to_pgvector(server, table="people", progress=be_second)
        assert column(sql, TABLES) == ["people"]

    def test_all_or_nothing(self, server: str, sql: Any) -> None:
        class StopError(Exception):
            pass

        def stop(*_: int) -> None:
            raise StopError

        with pytest.raises(StopError):
            release_of("hashing+laplace").to_pgvector(server, table="people", progress=stop)
        assert column(sql, TABLES) == []


class TestColumns:
    @pytest.mark.parametrize(
        ("dimension", "column", "index", "indexed"),
        [
            (2_000, "vector", "auto", "vector"),
            (2_001, "vector", "auto", "halfvec"),
            (4_000, "vector", "hnsw", "halfvec"),
            (4_001, "vector", "auto", None),
            (16_000, "vector", "auto", None),
            (4_000, "halfvec", "auto", "halfvec"),
            (100, "halfvec", "flat", None),
            (100, "vector", "flat", None),
        ],
    )
    def test_what_pgvector_indexes(self, dimension: int, column: Any, index: Any, indexed: str | None) -> None:
        assert _Form.of(dimension, column, index).indexed == indexed

    def test_what_it_cannot(self) -> None:
        with pytest.raises(ParameterError, match=r"index must be 'flat' here: .* at most 4000 coordinates, got 4001"):
            _Form.of(4_001, "vector", "hnsw")
        with pytest.raises(ParameterError, match=r"at most 16000 coordinates for pgvector, got 16001. Use denoise"):
            _Form.of(16_001, "vector", "auto")

    @pytest.mark.parametrize("k", [2_001, 4_096])
    def test_wide_points_in_a_real_server(self, k: int, server: str, sql: Any) -> None:
        release = publish(PEOPLE, Plan.of("hashing+laplace", Budget(1.0), k=k))
        release.to_pgvector(server, table="people")
        expected = f"CREATE INDEX people_hnsw ON public.people USING hnsw (((point)::halfvec({k})) halfvec_l2_ops)"
        assert indexes(sql).get("people_hnsw") == (expected if k == 2_001 else None)
        half = f"point::halfvec({k})"
        one = f"(SELECT {half} FROM people WHERE user_id = 3)"  # noqa: S608
        query = f"SELECT user_id FROM people ORDER BY {half} <-> {one} LIMIT 10"  # noqa: S608
        sql.execute("SET enable_seqscan = off")
        assert ("using people_hnsw" in "\n".join(column(sql, f"EXPLAIN {query}"))) == (k == 2_001)
        found = [row[0] for row in sql.execute(NEAREST, [3, 10]).fetchall()]
        check_neighbors(release, 3, found)

    def test_half_precision(self, server: str, sql: Any) -> None:
        release = release_of("counting+laplace")
        release.to_pgvector(server, table="people", column="halfvec")
        assert indexes(sql)["people_hnsw"].endswith("USING hnsw (point halfvec_l2_ops)")
        assert column(sql, "SELECT pg_typeof(point)::text FROM people LIMIT 1") == ["halfvec"]
        found, estimates = zip(*sql.execute(NEAREST, [3, 10]).fetchall(), strict=True)
        np.testing.assert_allclose(estimates, release.distances(3, found).value, rtol=0.02, atol=0.5)

    def test_what_half_precision_cannot_hold(self, server: str, sql: Any) -> None:
        release = release_of("counting+laplace", 4)
        values = release.values.copy()
        values[3, 3] = 10**6
        release = Release(type(release._sketches)(release.plan, release.users, values))  # type: ignore[call-arg, arg-type]
        with pytest.raises(ParameterError, match="column must be 'vector' here: points go beyond 65504"):
            release.to_pgvector(server, table="people", column="halfvec")
        assert column(sql, TABLES) == []

    def test_the_index_is_used(self, server: str, sql: Any) -> None:
        release = release_of("hashing+laplace")
        release.to_pgvector(server, table="people")
        query = "SELECT user_id FROM people ORDER BY point <-> (SELECT point FROM people WHERE user_id = 3) LIMIT 6"
        sql.execute("SET enable_seqscan = off")
        assert "Index Scan using people_hnsw" in "\n".join(column(sql, f"EXPLAIN {query}"))
        found = column(sql, query)
        assert found[0] == 3
        check_neighbors(release, 3, found[1:])  # of thirty people HNSW misses none


class TestRefusals:
    @pytest.mark.parametrize("table", ["People", "a b", "", "a.b.c", 'x"; DROP TABLE y', "1a", "x" * 51, "é", None])
    def test_names(self, table: Any) -> None:
        with pytest.raises(ParameterError, match=r"table must be a name such as people or shop.people"):
            release_of("hashing+laplace").to_pgvector("", table=table)

    def test_names_that_just_fit(self, server: str, sql: Any) -> None:
        sql.execute("CREATE SCHEMA IF NOT EXISTS shop")
        release_of("hashing+laplace").to_pgvector(server, table="shop." + "x" * 50, overwrite=True)
        release_of("hashing+laplace").to_pgvector(server, table="user", overwrite=True)
        assert column(sql, 'SELECT count(*) FROM "user"') == [30]
        sql.execute("DROP SCHEMA shop CASCADE")

    def test_schemas_that_are_not_there(self, server: str) -> None:
        with pytest.raises(ParameterError, match=r"schema none must exist, but it does not. Make it first"):
            release_of("hashing+laplace").to_pgvector(server, table="none.people")

    @pytest.mark.parametrize(("option", "words"), [("index", "'auto', 'flat' or 'hnsw'"), ("column", "'vector' or")])
    def test_options(self, option: str, words: str) -> None:
        with pytest.raises(ParameterError, match=f"{option} must be {words}.*got 'x'"):
            release_of("hashing+laplace").to_pgvector("", table="people", **{option: "x"})  # type: ignore[arg-type]

    def test_connections(self, tmp_path: Path) -> None:
        release = release_of("hashing+laplace")
        wrong: list[tuple[Any, type[DimlyError], str]] = [
            ("secret password", ParameterError, "dsn must be a connection string, such as"),
            (None, ParameterError, "dsn must be a connection string, such as .*got NoneType"),
            (f"host={tmp_path} password=secret", DimlyError, "dsn must lead to a server that takes the connection"),
        ]
        for dsn, error, words in wrong:
            with pytest.raises(error, match=words) as caught:
                release.to_pgvector(dsn, table="people")
            assert "secret" not in "".join(traceback.format_exception(caught.value, limit=0))
            assert caught.value.__context__ is None

    def test_rights(self, server: str, sql: Any) -> None:
        release, guest = release_of("hashing+laplace"), server.replace("postgres:@", "guest:@")
        sql.execute("DROP ROLE IF EXISTS guest")
        sql.execute("CREATE ROLE guest LOGIN")
        with pytest.raises(ParameterError, match=r"in a schema that the role of dsn can use. Name one, as in"):
            release.to_pgvector(guest, table="people")
        sql.execute("GRANT USAGE ON SCHEMA public TO guest")
        words = r"role of dsn must be allowed to make tables, and the extension vector, but it is not. Nothing"
        with pytest.raises(DimlyError, match=words):
            release.to_pgvector(guest, table="people")
        sql.execute("DROP EXTENSION vector")
        sql.execute("GRANT CREATE ON SCHEMA public TO guest")
        with pytest.raises(DimlyError, match=words):
            release.to_pgvector(guest, table="people")
        sql.execute("DROP OWNED BY guest")
        sql.execute("DROP ROLE guest")

    def test_a_server_without_pgvector(self, server: str, sql: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(export_postgres, "_EXTENSION", "nonsense")
        with pytest.raises(DimlyError, match=r"must have pgvector 0.7 or newer, on its search path, but it does not"):
            release_of("hashing+laplace").to_pgvector(server, table="people")
        assert column(sql, TABLES) == []

    def test_the_extension_is_made(self, server: str, sql: Any) -> None:
        sql.execute("DROP EXTENSION vector")
        release_of("hashing+laplace").to_pgvector(server, table="people")
        assert column(sql, "SELECT count(*) FROM people") == [30]

    def test_other_refusals_name_their_code(self, server: str) -> None:
        dsn = psycopg.conninfo.make_conninfo(server, options="-c default_transaction_read_only=on")
        with pytest.raises(DimlyError, match=r"PostgreSQL refused the export with code 25006. Nothing was changed."):
            release_of("hashing+laplace").to_pgvector(dsn, table="nobody")

    @pytest.mark.parametrize("package", ["psycopg", "pgvector"])
    def test_missing_packages(self, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in [name for name in sys.modules if name.split(".")[0] == package]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(MissingExtraError, match=r"needs psycopg and pgvector. Run pip install 'dimly\[postgres\]'"):
            release_of("hashing+laplace").to_pgvector("", table="people")
