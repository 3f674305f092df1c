"""The studio: a page to plan with, to look into releases, and to see what was spent. No private data."""
