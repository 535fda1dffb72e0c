"""Boot logs and running logs of engines: boots, settings in force, refusals, rolling figures."""

from auditor.engine_logs.boot import Boot
from auditor.engine_logs.figures import RunningRecord
from auditor.engine_logs.refusals import Refusal
from auditor.engine_logs.running import BatchFigures, Fact, LogFigures, RollingFigures
from auditor.engine_logs.scanning import LogScan, read_boots, readings_from_log, scan_log, settings_in_force

__all__ = [
    "BatchFigures",
    "Boot",
    "Fact",
    "LogFigures",
    "LogScan",
    "Refusal",
    "RollingFigures",
    "RunningRecord",
    "read_boots",
    "readings_from_log",
    "scan_log",
    "settings_in_force",
]
