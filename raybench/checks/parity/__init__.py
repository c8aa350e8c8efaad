"""The parity check: whether a workload trains identically in several frameworks."""
