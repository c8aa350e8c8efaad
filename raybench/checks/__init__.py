"""Checks in addition to training runs: weight decay, roofline and parity.

The module of a check measures in the trial's process; `pretrial` and `run_parity` belong to the driver.
"""
