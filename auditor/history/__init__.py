"""What earlier nights said: the store, baselines of comparable nights, and what changed.

``open_store`` for writing and reading, ``open_baseline`` for a gate that asks how a reading used to be.
"""

from __future__ import annotations

from auditor.history.gate_baseline import StoreBaseline, open_baseline
from auditor.history.store import Store, open_store

__all__ = ["Store", "StoreBaseline", "open_baseline", "open_store"]
