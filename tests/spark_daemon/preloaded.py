"""Spark's daemon, from which it forks its Python workers, with all loaded that they need: each took seconds for it.

Spark is told of it by the name of a module (tests/spark.py), and finds it because its folder is in PYTHONPATH.
"""

if __name__ == "__main__":
    import pyspark.daemon
    import pyspark.sql.pandas.serializers

    import dimly.spark.analysis
    import dimly.spark.publishing
    import dimly.spark.surveying  # noqa: F401 - they load what runs on workers

    pyspark.daemon.manager()  # type: ignore[no-untyped-call]
