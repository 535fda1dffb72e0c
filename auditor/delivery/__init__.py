"""Handing a finished report over: a Prometheus textfile, a Pushgateway, a webhook.

Each raises :class:`auditor.model.OutputError` with one sentence; the caller codes it 4 and goes on with the next.
"""

from __future__ import annotations

from auditor.delivery.pushgateway import push
from auditor.delivery.textfile import write_textfile
from auditor.delivery.webhook import post

__all__ = ["post", "push", "write_textfile"]
