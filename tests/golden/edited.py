"""Golden releases with something changed."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dimly.release.manifest import release_id

PART = "sketches/part-000000.parquet"


def sign(path: Path, name: str, **changes: Any) -> None:
    """Give the manifest the digest of a changed file, and the id that belongs to it."""
    fields = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    for record in fields["files"]:
        if record["path"] == name:
            content = (path / name).read_bytes()
            record.update({"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()} | changes)
    edit(path, lambda _: fields)


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the manifest's fields, and sign it anew."""
    fields = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    fields = change(fields) or fields
    fields.pop("release", None)
    (path / "manifest.json").write_text(json.dumps(fields | {"release": release_id(fields)}), encoding="utf-8")
