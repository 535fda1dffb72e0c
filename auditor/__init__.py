"""Premise auditor: checks the premise before anyone tunes an LLM inference engine."""

__version__ = "0.1.0"
