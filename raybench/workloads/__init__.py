"""Workloads: the built-in ones, one folder each, and the user's own files."""

from raybench.workloads.builtin import get, names
from raybench.workloads.info import WorkloadInfo, read_info
from raybench.workloads.lookup import load_workload, read_workload

__all__ = ["WorkloadInfo", "get", "load_workload", "names", "read_info", "read_workload"]
