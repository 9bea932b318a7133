"""What a JSON value is here, and its numbers as text: one text for each, integers exact at any size.

Python converts integers of more than 4,300 digits (640 at the least, by its environment) to and from text
only on request, and in quadratic time before 3.12. Here longer ones are built and split by halves, in less
than quadratic time, so that one hostile integer that fills a body's limit costs milliseconds.
"""

import decimal
from typing import Any

__all__ = ["Json", "integer_from_text", "integer_text", "number_text", "same_number"]

Json = Any
"""A JSON value: None, bool, int, float (finite), str, list or dict of these."""

# The lowest limit that PYTHONINTMAXSTRDIGITS can set is 640 digits: below it int() and str() always work.
_CHUNK_DIGITS = 600
_SHORT_BITS = 1_990  # fewer than 600 decimal digits

# No finite double reaches 2 ** 1024, so a longer integer equals none of them.
_DOUBLE_BITS = 1_024

# Doubles below this are written without an exponent by repr().
_PLAIN_FLOAT = 1e16


def integer_from_text(text: str) -> int:
    """Read an optional minus sign and decimal digits."""
    if len(text) <= _CHUNK_DIGITS:
        return int(text)
    negative = text.startswith("-")
    digits = text[1:] if negative else text
    first = len(digits) % _CHUNK_DIGITS
    parts = [int(digits[:first])] if first else []
    parts += [int(digits[at : at + _CHUNK_DIGITS]) for at in range(first, len(digits), _CHUNK_DIGITS)]
    base = 10**_CHUNK_DIGITS
    while len(parts) > 1:
        if len(parts) % 2:
            parts.insert(0, 0)
        parts = [parts[at] * base + parts[at + 1] for at in range(0, len(parts), 2)]
        base *= base
    return -parts[0] if negative else parts[0]


def integer_text(value: int) -> str:
    """Write all decimal digits of `value`."""
    if value.bit_length() <= _SHORT_BITS:
        return str(value)
    context = decimal.Context(prec=decimal.MAX_PREC, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
    powers: dict[int, decimal.Decimal] = {}

    def power_of_two(bits: int) -> decimal.Decimal:
        found = powers.get(bits)
        if found is None:
            if bits <= _SHORT_BITS:
                found = decimal.Decimal(1 << bits)
            else:
                half = bits >> 1
                found = context.multiply(power_of_two(half), power_of_two(bits - half))
            powers[bits] = found
        return found

    def halves(part: int, bits: int) -> decimal.Decimal:
        if bits <= _SHORT_BITS:
            return decimal.Decimal(part)
        low_bits = bits >> 1
        high = part >> low_bits
        low = part - (high << low_bits)
        shifted = context.multiply(halves(high, bits - low_bits), power_of_two(low_bits))
        return context.add(halves(low, low_bits), shifted)

    digits = format(halves(abs(value), value.bit_length()), "f")
    return f"-{digits}" if value < 0 else digits


def number_text(value: int | float) -> str:
    """Write the decimal that the shortest text of a finite `value` denotes, the same for equal numbers.

    Whole numbers are written with all their digits and no exponent: `10`, `10.0` and `1e1` are "10", and
    the double 1e23 is "1" and 23 noughts although its binary value is another integer. Minus nought is "0".
    """
    if type(value) is int:
        return str(value) if -_SHORT_INTEGER < value < _SHORT_INTEGER else integer_text(value)
    text = repr(float(value))
    if text.endswith(".0"):
        whole = text[:-2]
        return "0" if whole == "-0" else whole
    mantissa, exponent_mark, exponent = text.partition("e")
    if not exponent_mark:
        return text
    power = int(exponent)
    if power < 0:
        return f"{mantissa}e{power}"
    whole, _, fraction = mantissa.partition(".")
    return whole + fraction + "0" * (power - len(fraction))


_SHORT_INTEGER = 1 << _SHORT_BITS


def same_number(one: int | float, other: int | float) -> bool:
    """Tell whether two finite numbers have the same canonical text, without writing long integers."""
    if type(one) is type(other):
        return one == other
    integer = one if type(one) is int else other
    if type(integer) is int and integer.bit_length() > _DOUBLE_BITS:
        return False
    return number_text(one) == number_text(other)
