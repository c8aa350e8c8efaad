"""airbench94 on CIFAR-10: K. Jordan's program of 2024, as a training function in `train_torch.py`.

It reaches 94 % in 9.9 epochs and is the speed reference.

Source: K. Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU", 2024, and its program: 94.01 % (the mean of 1,000
runs) in 3.83 s on an A100, 3.09 s compiled.
"""

FUNCTION = "train_torch.py:train"
DATASET = "cifar10"
