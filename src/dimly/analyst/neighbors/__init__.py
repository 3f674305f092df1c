"""The nearest people: of one, of a vector, or of everybody."""
