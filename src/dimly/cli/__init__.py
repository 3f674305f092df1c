"""The command line: one file a command, no mathematics. Commands import the rooms that they need."""

import gc
import os
import signal
import sys
import threading


def main() -> None:
    """Run ``dimly`` with the process's own arguments."""
    # Until the commands are imported there is nothing to clean up and nobody who would catch a KeyboardInterrupt.
    waits = threading.current_thread() is threading.main_thread()
    if waits and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(128 + signal.SIGINT))
    # Modules are full of objects that stay: looking for garbage among them takes a tenth of a short command's time.
    gc.set_threshold(100_000)
    # A plugin of pydantic would see what is validated, and looking for one reads the metadata of every package.
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "1"
    from dimly.cli.app import app_for

    app_for(sys.argv[1:])()
