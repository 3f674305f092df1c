"""``dimly inspect``: what a release says of itself: plan, promise, files, ids."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dimly.cli.options import AsCsv, AsJson, Debug, check_one_output, plan_facts, plan_fields
from dimly.cli.terminal import print_csv, print_fields, print_json, print_lines, print_table, size_text

if TYPE_CHECKING:
    from dimly.release.manifest import Manifest
    from dimly.release.reader import StoredSketches


_MOST_FILES = 20
"""More files than this are counted instead of listed, for people."""


def inspect(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="The release folder.", show_default=False)],
    *,
    ids: Annotated[bool, typer.Option("--ids", help="List the ids of the people instead, one per line.")] = False,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Show what a release says about itself: its plan, its promise in words, its files. With --ids: who is in it.

    Reads the manifest and the footers of the files, whatever their size; dimly verify reads everything.

    $ dimly inspect release
    $ dimly inspect release --ids --csv
    """
    check_one_output(as_json=as_json, as_csv=as_csv)
    from dimly.release.reader import open_folder

    sketches = open_folder(release)
    if ids:
        _list_ids(sketches, as_json=as_json, as_csv=as_csv)
        return
    if as_csv:
        print_csv(["file", "bytes", "rows"], [(one.path, one.bytes, one.rows) for one in sketches.manifest.files])
        return
    manifest, directions = sketches.manifest, sketches.directions
    if as_json:
        about = None if directions is None else {"kind": directions.kind, "origin": directions.origin}
        print_json(_facts(release, manifest) | ({} if about is None else {"directions": about}))
        return
    fields = _fields(release, manifest)
    if directions is not None:
        fields["directions"] = f"{directions.count:,}, {fields['directions']}"
        fields["origin"] = directions.origin
    print_fields(fields)
    print_lines(["", *manifest.guarantee, ""])
    if len(manifest.files) <= _MOST_FILES:
        rows = [(file.path, size_text(file.bytes), f"{file.rows:,}") for file in manifest.files]
        print_table(["file", "size", "rows"], rows, numbers=["size", "rows"])


def _list_ids(sketches: "StoredSketches", *, as_json: bool, as_csv: bool) -> None:
    """Print everybody's id; one that a terminal would obey is escaped, but for CSV and JSON."""
    if as_json:
        print_json({"users": sketches.users.tolist()})
        return
    if as_csv:
        print_csv(["user"], ([user] for user in sketches.users.tolist()))
        return
    for start in range(0, len(sketches), 10_000):
        print_lines(str(user) for user in sketches.users[start : start + 10_000].tolist())


def _facts(release: Path, manifest: "Manifest") -> dict[str, Any]:
    return {
        "path": str(release),
        "release": manifest.release,
        "users": manifest.n_users,
        "bytes": _bytes(manifest),
        "plan_digest": manifest.plan_digest,
        **plan_facts(manifest.plan),
        "private": manifest.private,
        "manifest": json.loads(manifest.to_json()),
    }


def _fields(release: Path, manifest: "Manifest") -> dict[str, str]:
    people = "a public roster" if manifest.users.roster == "given" else "those found in the data"
    ids = ("pseudonyms, " if manifest.users.pseudonyms else "") + manifest.users.type
    fields = {"NOT PRIVATE": "made for tests only; must not be given to anyone"} if not manifest.private else {}
    if manifest.about is not None:
        told = {"title": manifest.about.title, "publisher": manifest.about.publisher, "date": manifest.about.date}
        fields |= {name: text for name, text in (told | {"note": manifest.about.note}).items() if text}
    return fields | {
        "release": str(release),
        "id": manifest.release,
        "people": f"{manifest.n_users:,}: {people}; ids: {ids}",
        "plan digest": manifest.plan_digest,
        **plan_fields(manifest.plan),
        "ledger": "none" if manifest.ledger is None else f"dataset {manifest.ledger.dataset}",
        "files": f"{len(manifest.files):,}, {size_text(_bytes(manifest))}",
    }


def _bytes(manifest: "Manifest") -> int:
    return sum(file.bytes for file in manifest.files)
