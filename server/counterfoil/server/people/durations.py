"""Reads the durations that a person writes on the command line, such as `15m` or `90d`.

They are functions and no classes of click's, whose parameter types have changed from version to version.
"""

import re

import click

__all__ = ["age", "duration", "in_words"]

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}


def duration(text: str) -> float:
    """Give the seconds of `90s`, `15m`, `2h` or `7d`.

    Raises:
        click.BadParameter: it is none of these, or none at all.
    """
    return _seconds(text, r"(\d{1,6}(?:\.\d{1,6})?)\s*([smhd])", otherwise="no duration: 90s, 15m, 2h or 7d")


def age(text: str) -> float:
    """Give the seconds of `48h`, `90d` or `12w`.

    Raises:
        click.BadParameter: it is none of these, or none at all.
    """
    return _seconds(text, r"(\d{1,6})([hdw])", otherwise="no age: 48h, 90d or 12w")


def in_words(duration_seconds: float) -> str:
    """Say a duration whole, in the largest unit that it is a multiple of: `7 d`, `90 min`, `1.5 s`."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if duration_seconds % length == 0:
            return f"{duration_seconds / length:g} {unit}"
    return f"{duration_seconds:g} s"


def _seconds(text: str, pattern: str, *, otherwise: str) -> float:
    match = re.fullmatch(pattern, text.strip(), re.ASCII)
    seconds = 0.0 if match is None else float(match[1]) * _SECONDS[match[2]]
    if seconds == 0:
        raise click.BadParameter(f"{text!r} is {otherwise}")
    return seconds
