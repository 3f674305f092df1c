"""The command line: one file a command, no mathematics. Heavy rooms are imported by the commands that need them."""

from dimly.cli.app import app, main

__all__ = ["app", "main"]
