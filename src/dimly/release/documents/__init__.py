"""Files that are published beside releases, each of them whole by itself: surveys, segments, profiles, directions."""
