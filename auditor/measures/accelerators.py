"""Peaks of a few accelerators, per device: what ``--accelerator NAME`` means.

Bandwidth is the maker's figure for memory; arithmetic is dense 16-bit (bf16), without sparsity, None where the maker
publishes none. A name that is not here: give --peak-gbytes-per-second and --peak-tflops.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Accelerator:
    """Peaks of one device."""

    name: str
    gbytes_per_second: float
    tflops: float | None
    source: str


ACCELERATORS = (
    Accelerator(
        "GB10", 273, None, "NVIDIA DGX Spark hardware overview: 273 GB/s; arithmetic is published for sparse FP4 only"
    ),
    Accelerator("A100-40GB", 1555, 312, "NVIDIA A100 datasheet"),
    Accelerator("A100-80GB", 2039, 312, "NVIDIA A100 datasheet, SXM"),
    Accelerator("H100-SXM", 3350, 989, "NVIDIA H100 datasheet; dense is half of the sparse figure printed there"),
    Accelerator("H100-PCIE", 2000, 756, "NVIDIA H100 datasheet; dense is half of the sparse figure printed there"),
    Accelerator("H200", 4800, 989, "NVIDIA H200 datasheet; dense is half of the sparse figure printed there"),
    Accelerator("L4", 300, 121, "NVIDIA L4 datasheet; dense is half of the sparse figure printed there"),
    Accelerator("L40S", 864, 362, "NVIDIA L40S datasheet"),
    Accelerator("MI300X", 5300, 1307, "AMD Instinct MI300X datasheet"),
)

BYTES_PER_PARAMETER = {
    "fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5, "int4": 0.5,
}  # fmt: skip
"""Bytes that one weight takes, scales and zero points left out."""


def find_accelerator(name: str) -> Accelerator | None:
    """The device of this name, in any case; None where the table has none."""
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
    return next((a for a in ACCELERATORS if a.name.lower() == wanted), None)
