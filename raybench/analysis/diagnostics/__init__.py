"""Findings: warnings about the conditions under which an attempt was measured."""
