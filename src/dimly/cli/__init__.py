"""The command line: one file a command, no mathematics. Commands import the rooms that they need."""

import atexit
import gc
import os
import signal
import sys


def main() -> None:
    """Run ``dimly`` with the process's own arguments."""
    # Until the commands are imported there is nothing to clean up and nobody who would catch a KeyboardInterrupt.
    # No more is imported before than this takes: Ctrl-C in the midst of an import would be a traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        try:  # noqa: SIM105 - contextlib would be imported first
            signal.signal(signal.SIGINT, lambda *_: os._exit(128 + signal.SIGINT))
        except ValueError:  # signals reach the main thread alone, and this is another
            pass
    # Modules are full of objects that stay: looking for garbage among them takes a tenth of a short command's time.
    gc.set_threshold(200_000)
    atexit.register(_end_soon)
    # A plugin of pydantic would see what is validated, and looking for one reads the metadata of every package.
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "1"
    from dimly.cli.app import app_for

    app_for(sys.argv[1:])()


def _end_soon() -> None:
    """Spare a process that ends looking through all of its objects several times, for garbage that goes with it."""
    # DuckDB's bindings count their own objects at the very end, and warn on stderr of those that nobody collected.
    if "_duckdb" in sys.modules:
        gc.disable()  # for the first of those times
    else:
        gc.freeze()
