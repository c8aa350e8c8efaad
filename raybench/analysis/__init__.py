"""From events to results, statistics and tables: pure functions that start nothing and write nothing."""
