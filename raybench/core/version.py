"""The version of raybench."""

__version__ = "0.1.0"
