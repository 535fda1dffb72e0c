"""Simulated windows as the product reads them: the pages of a run become a subject, the run gives the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from auditor.measures.subject import Subject
from auditor.measures.targets import build_target
from auditor.measures.vocabulary import Vocabulary, load_vocabulary
from auditor.model import Options, Setting, Window
from auditor.pipeline import build_subjects
from auditor.sources.exposition import parse_page
from tests.simulator import Layout, Run, VllmSetting, page_text, snapshots


@lru_cache(maxsize=1)
def vocabulary() -> Vocabulary:
    return load_vocabulary()


def known_settings(run: Run) -> dict[str, Setting]:
    """What --budget and --threshold would say of a run."""
    setting = run.setting
    if isinstance(setting, VllmSetting):
        return {
            "budget": Setting(float(setting.budget), "flag"),
            "threshold": Setting(float(setting.threshold), "flag"),
        }
    return {"budget": Setting(float(setting.chunk), "flag")}


def subject_of(
    run: Run, times: Sequence[float], layout: Layout, settings: Mapping[str, Setting] | None = None
) -> Subject:
    """The subject that an audit of the pages at ``times`` (seconds of the run) sees."""
    words = vocabulary()
    pages = [
        (float(at), parse_page(page_text(shot).encode(), wanted=words.wanted))
        for at, shot in zip(times, snapshots(run, times, layout=layout), strict=True)
    ]
    target = build_target("simulated", pages, words, saved=True)
    window = Window(
        kind="scrapes" if len(times) == 2 else "series",
        start=None,
        end=None,
        seconds=times[-1] - times[0],
        targets=(target,),
        settings=settings or {},
    )
    return build_subjects(window, Options(), settings=settings or {}, vocabulary=words)[0]
