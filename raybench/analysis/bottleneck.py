"""What limits a run: compute, memory, input or overhead."""

from raybench.checks.roofline.judge import ENOUGH, input_share, roofline

LEAST_SHARE = ENOUGH
__all__ = ["LEAST_SHARE", "input_share", "roofline"]
