"""The curator and the analyst on a Spark cluster, for tables that outgrow one machine.

Names are loaded when they are first used: workers, which import this room too, need few of them.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dimly.spark.analysis import assign_segments, covariance
    from dimly.spark.publishing import publish
    from dimly.spark.surveying import survey

_HOME = {"assign_segments": "analysis", "covariance": "analysis", "publish": "publishing", "survey": "surveying"}

__all__ = ["assign_segments", "covariance", "publish", "survey"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'dimly.spark' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dimly.spark.{_HOME[name]}"), name)
    globals()[name] = value
    return value
