"""A report written to a file, from a release in memory or in a folder."""

import tempfile
from pathlib import Path

from dimly.analyst.release import Release
from dimly.analyst.structure.segments import Count
from dimly.curator.options import Progress
from dimly.files import check_output, write_text
from dimly.lab.report.page import page_of
from dimly.lab.report.report import report_of
from dimly.release.reader import StoredSketches, open_folder


def write_report(
    release: Release, path: Path, *, count: Count = "auto", overwrite: bool = False, progress: Progress | None = None
) -> Path:
    """Write the page; see :meth:`Release.report`."""
    check_output(path, overwrite=overwrite)
    sketches = release._sketches
    if isinstance(sketches, StoredSketches):
        page = page_of(report_of(sketches, count=count, progress=progress))
    else:
        # A page is about files and their digests: a release in memory has them once it is saved.
        with tempfile.TemporaryDirectory(prefix="dimly-report-") as folder:
            saved = release.save(Path(folder) / "release")
            page = page_of(report_of(open_folder(saved), count=count, progress=progress))
    write_text(path, page, overwrite=overwrite)
    return path
