"""Checks in addition to training runs, one folder each.

Each has modules to measure (in the trial's process), to schedule, and to judge.
"""
