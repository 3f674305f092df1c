"""The lab: what the mechanisms do, shown."""
