"""What can be trained: the shipped workloads, one folder each, and a person's own in a file of theirs."""

from raybench.workloads.reference import WorkloadInfo, load_workload, read_reference
from raybench.workloads.shipped import get, names

__all__ = ["WorkloadInfo", "get", "load_workload", "names", "read_reference"]
