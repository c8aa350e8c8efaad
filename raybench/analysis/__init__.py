"""Comparison of cells and diagnosis of attempts: pure functions without side effects."""
