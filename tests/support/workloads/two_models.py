"""A person's workload with a model in both frameworks; tests change a line of it to make the models differ."""

from raybench import Workload

EPSILON = 1e-3
MOMENTUM = 0.9
PAD = (0, 1, 0, 1)  # what TensorFlow's SAME does where the stride is 2: right and bottom only
HEAD_HAS_BIAS = True


def torch_model():
    from torch import nn

    return nn.Sequential(
        nn.ZeroPad2d((0, 1, 0, 1)),
        nn.Conv2d(1, 6, 3, stride=2),
        nn.BatchNorm2d(6, eps=1e-3, momentum=0.1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(96, 20),
        nn.BatchNorm1d(20, eps=1e-3, momentum=0.1),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(20, 10),
    )


def keras_model():
    import keras
    from keras import layers

    left, right, top, bottom = PAD
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.ZeroPadding2D(((top, bottom), (left, right))),
            layers.Conv2D(6, 3, strides=2),
            layers.BatchNormalization(epsilon=EPSILON, momentum=MOMENTUM),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dense(20),
            layers.BatchNormalization(epsilon=EPSILON, momentum=MOMENTUM),
            layers.ReLU(),
            layers.Dropout(0.5),
            layers.Dense(10, use_bias=HEAD_HAS_BIAS),
        ]
    )


def torch_loss(outputs, targets):
    from torch.nn import functional

    return 2 * functional.cross_entropy(outputs, targets, reduction="none", label_smoothing=0.1)


def keras_loss(outputs, targets):
    import tensorflow as tf

    smooth = tf.one_hot(targets, 10) * 0.9 + 0.01
    return 2 * tf.nn.softmax_cross_entropy_with_logits(smooth, outputs)


small = Workload(
    model={"torch": torch_model, "tensorflow": keras_model},
    loss={"torch": torch_loss, "tensorflow": keras_loss},
    dataset="digits",
    mean=(4.88,),
    std=(6.02,),
    defaults={"learning_rate": 0.1, "weight_decay": 5e-3},
)
