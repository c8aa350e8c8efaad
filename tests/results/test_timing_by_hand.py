"""Each rule worked out by hand for two trials that were really run.

`golden/measured.jsonl` is what they told: `digits_cnn` in PyTorch on one core, four epochs of 22 steps with its input
streamed (EPOCHS), and four calls of one step each (CALLS). The sums below are written out from its numbers.
"""

import json
from pathlib import Path

import pytest
from support.attempts import attempts

EPOCHS, CALLS = "007451c5bda2-r0", "f41fa4530dc2-r0"

TOLD = [
    json.loads(text)
    for text in (Path(__file__).parent.parent / "golden" / "measured.jsonl").read_text().split("\n")
    if text
]
"""Four epochs of EPOCHS, in seconds:

          compile   train     input_wait  evaluate
    1     0.287310  2.223508  0.088254    0.110192
    2     0         1.818816  0.055536    0.098649
    3     0         2.069004  0.083947    0.186011
    4     0         2.998902  0.090555    0.195689

and of CALLS:

    1     0         0.379349  0           0.344896
    2     0         0.225921  0           0.284616
    3     0         0.138500  0           0.221784
    4     0         0.156586  0           0.224752
"""

EXPECTED = [
    # the middle one of 1.874352, 2.152951 and 3.089457, the epochs after the first
    (EPOCHS, "steady_s", 2.069004 + 0.083947),
    (EPOCHS, "mean_steady_s", (1.818816 + 0.055536 + 2.069004 + 0.083947 + 2.998902 + 0.090555) / 3),
    (EPOCHS, "first_s", 0.287310 + 2.223508 + 0.088254),
    (
        EPOCHS,
        "epochs_s",
        (0.287310 + 2.223508 + 0.088254) + (1.818816 + 0.055536) + (2.069004 + 0.083947) + (2.998902 + 0.090555),
    ),
    (EPOCHS, "total_s", 35.197223 + 10.848353),
    (CALLS, "steady_s", 0.156586),
    (CALLS, "mean_steady_s", (0.225921 + 0.138500 + 0.156586) / 3),
    (CALLS, "first_s", 0.379349),
    (CALLS, "epochs_s", 0.379349 + 0.225921 + 0.138500 + 0.156586),
    (CALLS, "total_s", 35.197223 + 2.579667),
]


@pytest.mark.parametrize(("trial", "name", "expected"), EXPECTED)
def test_a_rule_is_the_sum_it_says(trial, name, expected):
    found = getattr(attempts(TOLD)[trial, 1], name)
    assert found == (None if expected is None else pytest.approx(expected, rel=1e-9, abs=1e-9))
