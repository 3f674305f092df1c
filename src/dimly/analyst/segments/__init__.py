"""Segments: groups of people, how far to believe in them, and what tells them apart."""
