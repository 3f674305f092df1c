"""``python -m dimly`` is ``dimly``."""

from dimly.cli import main

if __name__ == "__main__":
    main()
