"""A window of the past, added up by the metrics server that has stored it.

``collect_range`` asks few questions whose number does not grow with the replicas: what is there (``finding``), whether
it can be trusted (``truth``), the quantities by subject and their course (``asking``, ``assembling``), or with
``--exact`` the raw samples themselves (``exact``).
"""

from auditor.ranges.collecting import RangeRequest, collect_range, list_queries, names_there
from auditor.ranges.pieces import collect_pieces
from auditor.ranges.planning import plan_without_server

__all__ = ["RangeRequest", "collect_pieces", "collect_range", "list_queries", "names_there", "plan_without_server"]
