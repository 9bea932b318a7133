"""Reads the clocks: the wall clock, and a monotonic one with the boot that it counts from."""

import sys
import time
from functools import cache
from pathlib import Path

from counterfoil.store.domain.instants import Reading

__all__ = ["read_clock"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def read_clock() -> Reading:
    """Give what the clocks say now, in microseconds.

    On Linux the monotonic clock is CLOCK_BOOTTIME, which goes on while the machine sleeps and is the same
    for every process of one boot, so that a wall clock that was set shows between two sessions as well.
    Elsewhere `boot` is None, and a jump goes unnoticed.
    """
    return Reading(at=time.time_ns() // 1_000, monotonic=_monotonic_ns() // 1_000, boot=_boot())


def _monotonic_ns() -> int:
    if sys.platform == "linux":
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return time.monotonic_ns()


@cache
def _boot() -> str | None:
    """Name this boot of the machine; None where the system does not tell."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None
