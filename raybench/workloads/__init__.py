"""Workloads: the built-in ones, one folder each, and the user's own files."""

from raybench.workloads.builtin import get, names
from raybench.workloads.lookup import WorkloadInfo, load_workload, read_workload

__all__ = ["WorkloadInfo", "get", "load_workload", "names", "read_workload"]
