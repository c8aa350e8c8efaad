"""Checks before training runs: weight decay and roofline.

The module of a check measures in the trial's process; `pretrial` belongs to the driver.
"""
