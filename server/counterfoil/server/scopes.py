"""Names what a caller over HTTP may do, without loading anything: commands name it too."""

__all__ = ["APPROVE", "READ", "SCOPES", "WRITE"]

READ, WRITE, APPROVE = "counterfoil:read", "counterfoil:write", "counterfoil:approve"
"""To see, to record, and to answer for a person. None implies another."""

SCOPES = (READ, WRITE, APPROVE)
