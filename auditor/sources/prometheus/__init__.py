"""The query API that Prometheus, Thanos, Mimir, Cortex and VictoriaMetrics share.

This room asks and reads answers; what to ask is rendered elsewhere. Importing it loads no HTTP library.
"""

from auditor.sources.prometheus.answers import Answer, Row
from auditor.sources.prometheus.refusals import LengthError, LimitError, QueryError
from auditor.sources.prometheus.server import QUERIES_PER_SECOND, Dialect, MetricsServer, Tally

__all__ = [
    "QUERIES_PER_SECOND",
    "Answer",
    "Dialect",
    "LengthError",
    "LimitError",
    "MetricsServer",
    "QueryError",
    "Row",
    "Tally",
]
