"""Checks beside training runs: one folder each, to measure (in the trial's process), to schedule, and to judge."""
