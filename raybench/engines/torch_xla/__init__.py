"""The PyTorch/XLA engine: torch's models and loop, compiled by XLA.

It runs on a TPU or on the host.
"""
