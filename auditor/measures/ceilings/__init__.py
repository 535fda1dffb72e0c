"""What prefill costs everybody's decode, and so the most that prefill levers can gain: the arithmetic behind it.

``evidence`` collects what the argument needs of a subject, ``valley`` and ``baseline`` find the length of a step
without prefill in the gaps, ``lulls`` reads it where a series has moments without prompts, ``ranges`` holds the
calibrated ends. docs/ceilings.md has the derivation and the proof.
"""
