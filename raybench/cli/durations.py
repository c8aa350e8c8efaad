"""Human-readable durations."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """A human-readable duration: 4 ms, 0.42 s, 3.4 s, 12 s, 3 min 20 s, 2 h 05 min."""
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms" if seconds else "0 s"
    if seconds < 9.95:
        return f"{seconds:.2f} s" if seconds < 0.995 else f"{seconds:.1f} s"
    rounded = round(seconds)
    if rounded < 60:
        return f"{rounded} s"
    if rounded < 3600:
        return f"{rounded // 60} min {rounded % 60:02d} s"
    minutes = round(rounded / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def rough(seconds: float) -> str:
    """A duration to whole seconds, for a display that is updated live."""
    return f"{round(seconds)} s" if seconds < 59.5 else duration(seconds)
