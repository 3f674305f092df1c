"""Noise as tables of integer weights that are proven before they are sampled, and coin flips."""
