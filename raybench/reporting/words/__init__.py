"""Sentences and numbers of a report as plain text, a module for each subject."""
