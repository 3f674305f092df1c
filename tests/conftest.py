"""Settings for every test."""

from hypothesis import settings

# No test asserts a time, and the first call of a kernel compiles it; the same examples in every run, so that a
# failure is a fault of the change at hand. `--hypothesis-profile=default` searches anew.
settings.register_profile("dimly", deadline=None, derandomize=True)
settings.load_profile("dimly")
