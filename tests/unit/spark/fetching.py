"""Releases elsewhere, brought here."""

from pathlib import Path
from typing import Any


def fetched(spark: Any, address: str, folder: Path) -> Path:
    """Copy a folder to this machine as ``hdfs dfs -get`` does."""
    path = spark.sparkContext._jvm.org.apache.hadoop.fs.Path
    files = path(address).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    files.copyToLocalFile(False, path(address), path(str(folder / "copy")), True)
    return folder / "copy"
