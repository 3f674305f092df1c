"""The studio: a page to plan with, to look into releases, and to see what was spent. Opens no private data."""
