"""The command line: one file a command, no mathematics. Commands import the rooms that they need."""

import os
import signal
import threading


def main() -> None:
    """Run ``dimly`` with the process's own arguments."""
    # Until the commands are imported there is nothing to clean up and nobody who would catch a KeyboardInterrupt.
    waits = threading.current_thread() is threading.main_thread()
    if waits and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(128 + signal.SIGINT))
    from dimly.cli.app import app

    app()
