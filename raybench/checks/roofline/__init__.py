"""The roofline: peak rates of a device, and what limits a workload on it."""
