"""Comparison of cells and diagnosis of attempts: pure functions that start nothing and write nothing."""
