"""A workload of one's own: a grid file names it with `workload: my_file.py:my_workload`."""

from torch import nn

from raybench import Workload


def build():
    """A fresh model: pictures [batch, channels, height, width] in, one number a class out."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


my_workload = Workload(
    model=build,
    dataset="digits",
    mean=(4.88,),
    std=(6.02,),
    defaults={"epochs": 3, "batch_size": 32, "learning_rate": 0.05},
)
