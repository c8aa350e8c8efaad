"""The PyTorch/XLA engine: torch's models and loop, compiled by XLA for a TPU or the host."""
