"""Loss and metrics of two classes with one logit, by framework."""

LOSS = {
    "torch": "raybench.workloads.binary_torch:loss",
    "tensorflow": "raybench.workloads.binary_tensorflow:loss",
}
METRICS = {
    "torch": "raybench.workloads.binary_torch:metrics",
    "tensorflow": "raybench.workloads.binary_tensorflow:metrics",
}
