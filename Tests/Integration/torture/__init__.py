"""The daemon is killed again and again, and asked what it has kept: `round` does it, `model` says what that must be."""
