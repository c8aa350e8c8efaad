"""airbench94 on CIFAR-10: K. Jordan's network and recipe of 2024.

It reaches 94 % in 9.9 epochs and is the speed reference.

Source: K. Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU", 2024, and its program: 94.01 % (the mean of 1,000
runs) in 3.83 s on an A100, 3.09 s compiled. The program sums the loss over the batch and divides its rate of 11.5 per
1,024 examples by 1 + 1 ÷ (1 - momentum), and its decay by that rate: in the mean-loss convention those are the rate and
the decay below. The biases of batch norms have 64 times the rate and a 64th of λ, so that a step decays them by the
same factor as every weight.

Three things differ. The program's lookahead begins with the fourth epoch; before that, slow weights keep at most 2 % of
their values here. The program also copies the slow weights to the model at the end of each epoch, here only at the end
of the run. And only its last evaluation uses six views of each image, here every one does; only the last is in the
published time.

On a GPU the program computes in fp16, weights and all: `precision: fp16` and `master_weights: false` in the grid.
"""

from __future__ import annotations

from raybench.workloads.base import Workload

WORKLOAD = Workload(
    name="airbench94",
    model={"torch": "raybench.workloads.airbench94.torch:build"},
    initialize={"torch": "raybench.workloads.airbench94.torch:whiten"},
    dataset="cifar10",
    mean=(125.307, 122.961, 113.8575),
    std=(62.985, 62.0925, 66.708),
    defaults={
        "epochs": 9.9,
        "batch_size": 1024,
        "optimizer": "sgd",
        "learning_rate": 1.5,
        "momentum": 0.85,
        "nesterov": True,
        "weight_decay": 1.33e-3,
        "parameter_groups": [
            {"match": "*.norm?.bias", "rate_factor": 64.0, "decay_factor": 0.015625},
            {"match": "whitening.bias", "epochs": 3},
        ],
        "lookahead": {"every": 5, "decay": 0.7737809375, "power": 3.0},
        "label_smoothing": 0.2,
        "schedule": {"name": "piecewise_linear", "points": [[0, 0.2], [0.23, 1.0], [1, 0.07]], "stretch": True},
        "augmentation": [{"crop": 2}, {"flip": "alternating"}],
        "test_time_augmentation": ["flip", {"shift": 1}],
        "warmup_epochs": 3,  # the first three train the bias of the whitening layer, and take longer
        "channels_last": True,
        "evaluation_batch_size": 2000,
    },
)
