"""Weights after ten optimizer steps with a zero loss gradient, by the closed form of each decay rule."""

import torch

RATE, DECAY, STEPS = 0.1, 0.05, 10
SGD = {"name": "sgd", "learning_rate": RATE, "momentum": 0.9, "nesterov": True}
MOMENTS = {"learning_rate": RATE, "betas": [0.9, 0.999], "eps": 1e-8}


def coupled_sgd(weight):
    velocity = torch.zeros_like(weight)
    for _ in range(STEPS):
        gradient = DECAY * weight
        velocity = 0.9 * velocity + gradient
        weight = weight - RATE * (gradient + 0.9 * velocity)
    return weight


def coupled_adam(weight):
    first, second = torch.zeros_like(weight), torch.zeros_like(weight)
    for step in range(1, STEPS + 1):
        gradient = DECAY * weight
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        weight = weight - RATE * (first / (1 - 0.9**step)) / ((second / (1 - 0.999**step)).sqrt() + 1e-8)
    return weight


def decoupled(weight):
    return weight * (1 - RATE * DECAY) ** STEPS


START = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
CLOSED = {
    ("sgd", "coupled"): coupled_sgd,
    ("sgd", "decoupled"): decoupled,
    ("adam", "coupled"): coupled_adam,
    ("adam", "decoupled"): decoupled,
    ("adamw", "coupled"): coupled_adam,
    ("adamw", "decoupled"): decoupled,
}
