"""Files that are published beside releases, each whole by itself: surveys, segments, profiles, directions."""
