"""Training loops of other libraries, which report to a `Trial` by one line.

Each module imports its library, so nothing else of raybench imports it.
"""
