"""Where a frame and its columns come from, by Spark's plan: its tables, and the files they are read from."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from dimly.errors import ParameterError
from dimly.spark.cluster import asked, column

_OF_ROWS: Final = {"CSVFileFormat", "JsonFileFormat"}
"""Formats in which rows may name columns: keys of objects, or a first line that is no header."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a column comes from: the node of Spark's plan that first has it, and which of its columns it is there."""

    node: Any
    index: int

    @classmethod
    def of(cls, frame: Any, name: str) -> "Origin":
        """Return where a column of a frame comes from."""
        node = _analyzed(frame.select(column(name)))
        shared = {one.id(): one.child() for one in _nodes(node) if _kind(one) == "CTERelationDef"}
        index = 0
        while (below := cls._below(node, index, shared)) is not None:
            node, index = below
        return cls(node, index)

    @staticmethod
    def _below(node: Any, index: int, shared: dict[int, Any]) -> tuple[Any, int] | None:
        """Return the node that a column comes from, unchanged or as all that an expression is made from."""
        if _kind(node) == "CTERelationRef":  # a part of a query that has a name
            return shared[node.cteId()], index
        wanted = node.output().apply(index).exprId().id()
        for expression in _scala(node.expressions()):
            if _kind(expression) == "Alias" and expression.exprId().id() == wanted:
                used = _scala(expression.references().toSeq())
                if len(used) != 1:
                    return None
                wanted = used[0].exprId().id()
        for child in _scala(node.children()):
            for place, one in enumerate(_scala(child.output())):
                if one.exprId().id() == wanted:
                    return child, place
        return None

    def is_same(self, other: "Origin") -> bool:
        """Return whether both are one column; numbers that Spark counts up are nobody's."""
        if _kind(self.node) == "Range" or not is_same(self.node, other.node):
            return False
        return self._name == other._name if read_files_of(self.node) else self.index == other.index

    @property
    def _name(self) -> str:
        return str(self.node.output().apply(self.index).name()).casefold()


def leaves(frame: Any) -> list[Any]:
    """Return the tables that a frame is made from, as Spark knows them."""
    return [one for one in _scala(_analyzed(frame).collectLeaves()) if _kind(one) != "CTERelationRef"]


def is_same(node: Any, other: Any) -> bool:
    """Return whether two nodes of Spark's plans give the same rows, or read some file both."""
    return node.sameResult(other) or not read_files_of(node).isdisjoint(read_files_of(other))


def read_files_of(node: Any) -> set[str]:
    """Return the addresses of the files that a node reads."""
    return set(node.relation().location().inputFiles()) if _reads_files(node) else set()


def names_come_from_rows(frame: Any) -> bool:
    """Return whether columns of a frame may be called as some row says, because Spark took the names from text."""
    return asked(lambda: any(_format(one) in _OF_ROWS for one in leaves(frame)), "opening the table")


def check_types_are_stated(frame: Any) -> None:
    """Refuse CSV of which Spark guessed the types: one person's cell would change how everybody's are read.

    Raises
    ------
    ParameterError
        If it did.
    """

    def is_guessed() -> bool:
        return any(_format(one) == "CSVFileFormat" and _option(one, "inferSchema") == "true" for one in leaves(frame))

    if asked(is_guessed, "opening the table"):
        raise ParameterError(
            "frame must not be CSV of which Spark guessed the types: one person's cell would change how everybody's "
            "are read. Leave inferSchema out, or state the types: spark.read.schema(…).csv(…)."
        )


def _analyzed(frame: Any) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in _scala(node.children()):
        yield from _nodes(child)


def _reads_files(node: Any) -> bool:
    return _kind(node) == "LogicalRelation" and _kind(node.relation()) == "HadoopFsRelation"


def _format(node: Any) -> str | None:
    return _kind(node.relation().fileFormat()) if _reads_files(node) else None


def _option(node: Any, name: str) -> str | None:
    for option in _scala(node.relation().options().toSeq()):
        if option._1().casefold() == name.casefold():
            return str(option._2()).casefold()
    return None


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _scala(found: Any) -> list[Any]:
    return [found.apply(i) for i in range(found.size())]
