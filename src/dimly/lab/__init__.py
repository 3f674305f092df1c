"""The lab: what the mechanisms do, shown on made-up or public people."""
