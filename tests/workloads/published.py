"""What is known of the shipped models, whatever framework they are in."""

COUNTS = [
    ("davidnet", 6_573_120, 4_480),
    ("katnoria_cnn", 111_498, 448),
    ("mnist_cnn", 250_698, 484),
    ("digits_cnn", 75_114, 448),
]
"""Name, values trained, running statistics."""
