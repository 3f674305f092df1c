"""The artifact: the folder that is published, written once, and read with nothing taken on trust."""

from dimly.mechanisms.guarantee import RosterKind, guarantee
from dimly.release.format import Layout, UserType, layout_of
from dimly.release.manifest import Manifest, read_manifest
from dimly.release.reader import StoredSketches, open_folder
from dimly.release.sketches import Sketches
from dimly.release.verify import Verification, verify
from dimly.release.writer import ReleaseWriter

__all__ = [
    "Layout",
    "Manifest",
    "ReleaseWriter",
    "RosterKind",
    "Sketches",
    "StoredSketches",
    "UserType",
    "Verification",
    "guarantee",
    "layout_of",
    "open_folder",
    "read_manifest",
    "verify",
]
