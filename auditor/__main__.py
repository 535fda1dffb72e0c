"""``python -m auditor``."""

from auditor.entry import main

main()
