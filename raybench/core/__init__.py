"""Shared vocabulary: jobs, events, ledgers, identity; and files, processes and memory, for all packages."""
