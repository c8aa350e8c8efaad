"""What several test files share. Nothing here is collected as a test."""

from pathlib import Path

SUPPORT = Path(__file__).parent
TESTS = SUPPORT.parent
ROOT = TESTS.parent

WORKLOADS = SUPPORT / "workloads"
"""Files of a user's own workloads, each with its troubles."""
