"""Kills the daemon again and again: `round` loads and checks it, `model` predicts its state."""
