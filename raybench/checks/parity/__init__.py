"""Parity: whether a workload is the same training job in several frameworks."""
