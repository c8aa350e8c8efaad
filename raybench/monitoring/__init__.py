"""Monitoring of a trial's environment from outside its process: its cores, processes and GPUs."""

from raybench.monitoring.sampler import Monitor

__all__ = ["Monitor"]
