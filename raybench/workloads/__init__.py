"""What can be trained: the shipped workloads, one folder each, and a person's own in a file of theirs."""

from raybench.workloads.builtin import get, names
from raybench.workloads.lookup import WorkloadInfo, load_workload, read_reference

__all__ = ["WorkloadInfo", "get", "load_workload", "names", "read_reference"]
