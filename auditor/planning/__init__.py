"""Arithmetic before a change: what a step holds, what a setting costs in KV cache."""
