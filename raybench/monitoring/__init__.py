"""What went on around a trial while it ran, read from outside its process: its cores, its processes and its GPUs."""

from raybench.monitoring.sampler import SAMPLES, Monitor

__all__ = ["SAMPLES", "Monitor"]
