"""Inputs -> Window: everything that may touch the network or a file, once, before anything is judged."""

from auditor.collect.addresses import expand_addresses
from auditor.collect.gathering import collect
from auditor.collect.inputs import Inputs, is_address

__all__ = ["Inputs", "collect", "expand_addresses", "is_address"]
