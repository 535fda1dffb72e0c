"""Two windows, or arms of repeated windows: what differs between them first, then what changed, with its noise."""

from auditor.compare.arms import Arm, compare_arms, make_arm
from auditor.compare.plan import plan_document
from auditor.compare.tonight import compare_tonight

__all__ = ["Arm", "compare_arms", "compare_tonight", "make_arm", "plan_document"]
