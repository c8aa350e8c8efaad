"""The PyTorch/XLA engine: torch's models and loop, written down lazily and compiled by XLA for a TPU or the host."""
