"""What long work tells whoever watches it: phases, and people done. Never a number that depends on private rows."""

from typing import Protocol


class Progress(Protocol):
    """Told by publishing how far it is; called from one thread at a time."""

    def phase(self, name: str) -> None:
        """Hear that work of a new kind begins, whose length is not known."""

    def start(self, n_users: int) -> None:
        """Hear that this many people are going to be published."""

    def advance(self, n_users: int) -> None:
        """Hear that so many more people are written."""


class Silence:
    """Nobody watches."""

    def phase(self, name: str) -> None:
        """Say nothing."""

    def start(self, n_users: int) -> None:
        """Say nothing."""

    def advance(self, n_users: int) -> None:
        """Say nothing."""
