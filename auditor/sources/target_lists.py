"""Lists of targets: one a line, or Prometheus ``file_sd`` in JSON or YAML."""

from __future__ import annotations

from typing import Any

from auditor.model import EvidenceError, UsageError
from auditor.sources.files import read_file


def read_targets(path: str) -> tuple[str, ...]:
    """Targets of a list file, in order, doubles left out.

    Raises:
        UsageError: no such file, or not such a list.
    """
    try:
        text = read_file(path).decode("utf-8-sig", errors="replace")
    except EvidenceError as error:
        raise UsageError(f"{path}: {error}") from None
    stripped = text.lstrip()
    if stripped.startswith(("[", "{", "- ")) or path.endswith((".yaml", ".yml", ".json")):
        found = _file_sd(path, text)
    else:
        lines = (line.partition("#")[0].strip() for line in text.splitlines())
        found = [line for line in lines if line]
    if not found:
        raise UsageError(f"{path}: names no target")
    return tuple(dict.fromkeys(found))


def _file_sd(path: str, text: str) -> list[str]:
    import yaml

    try:
        groups = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # ValueError: 2026-13-45 is read as a date
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark is not None else path
        raise UsageError(f"{where}: is neither one target a line nor file_sd JSON or YAML") from None
    out: list[str] = []
    for group in groups if isinstance(groups, list) else [groups]:
        targets: Any = group.get("targets") if isinstance(group, dict) else None
        if not isinstance(targets, list) or not all(isinstance(t, str) for t in targets):
            raise UsageError(f"{path}: a file_sd group needs a list 'targets' of host:port texts")
        labels = group.get("labels") or {}
        if not isinstance(labels, dict):
            raise UsageError(f"{path}: the labels of a file_sd group are a mapping")
        scheme = labels.get("__scheme__", "http")
        metrics_path = labels.get("__metrics_path__", "/metrics")
        out += [t if "://" in t else f"{scheme}://{t}{metrics_path}" for t in targets]
    return out
