"""Shared types and utilities: jobs, cells, events, ledgers, files, processes and memory."""
