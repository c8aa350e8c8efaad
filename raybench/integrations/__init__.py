"""Training loops of other libraries, which report to a `Trial` by one line; each module imports its library."""
