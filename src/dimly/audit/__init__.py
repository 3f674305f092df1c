"""The adversary: attacks on what Dimly claims, from a plan's tables to the bytes of a release."""
