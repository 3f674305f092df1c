"""What is published of neighboring Spark frames differs in one person's row; a reader that guesses is found.

``DIMLY_SPARK_PAIRS`` says how many pairs of each shape are tried: one in ``make test``, 50 in ``make torture``.
"""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.privacy.neighboring_files import MARK, LeakError
from tests.privacy.neighboring_frames import SPARK_SHAPES, spark_pair
from tests.spark import spark, uses_spark

pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'dimly[spark]'")
__all__ = ["spark"]
pytestmark = uses_spark

PAIRS = int(os.environ.get("DIMLY_SPARK_PAIRS", "1"))


@pytest.mark.parametrize("shape", SPARK_SHAPES)
@pytest.mark.thorough
def test_spark_frames(shape: str, spark: Any, tmp_path: Path) -> None:
    outcomes = [spark_pair(spark, shape, seed, tmp_path / "pair") for seed in range(PAIRS)]
    assert any(outcomes)


@pytest.mark.thorough
def test_a_frame_whose_cells_say_how_it_is_read_is_found(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A break: one cell makes the reader cut off everybody's last letter."""
    from dimly.spark import table  # noqa: PLC0415 - only where there is a Spark

    selected = table._selected

    def guessing(frame: Any, names: Any) -> Any:
        chosen = selected(frame, names)
        if "page" not in chosen.columns or not frame.filter(frame.page.contains(MARK)).count():
            return chosen
        from pyspark.sql import functions  # noqa: PLC0415

        return chosen.withColumn("page", functions.expr("substring(page, 1, length(page) - 1)"))

    monkeypatch.setattr(table, "_selected", guessing)
    with pytest.raises(LeakError, match="moved"):
        spark_pair(spark, "long", 0, tmp_path / "pair")
