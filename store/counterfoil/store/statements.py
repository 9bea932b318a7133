"""Reads the named statements of `sql/queries.sql`: SQL is written, reviewed and explained in SQL files.

A statement is a header, its guarantee, its text:

    -- name: find_run
    -- At most one row: a run's id is unique within its namespace.
    SELECT … WHERE namespace = :namespace AND id = :id;

A dialect may replace a statement in `sql/DIALECT/overrides.sql`; the comment there has to say
"Differs because". Nothing is converted here: a driver that writes parameters otherwise does so itself.
"""

from pathlib import Path

from msgspec import Struct

from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["Statement", "StatementRefused", "Statements", "load_statements", "sql_folder"]

_HEADER = lazy_pattern(r"^--\s*name:\s*(?P<name>\S+)\s*$")
_NAME = lazy_pattern(r"^[a-z][a-z0-9_]*$")


class StatementRefused(RuntimeError):
    """The database refused a statement that the journal should not have run: a mistake in this program.

    The journal checks before it writes, so a broken constraint, a missing parameter or an unknown
    statement is never a caller's doing, and no answer to a caller could mend it.
    """

    def __init__(self, message: str, *, statement: str) -> None:
        super().__init__(f"statement {statement}: {message}")
        self.statement = statement


class Statement(Struct, frozen=True, kw_only=True):
    """One named statement with the guarantee that its comment gives."""

    name: str
    guarantee: str
    sql: str


class Statements(dict[str, Statement]):
    """The statements of one dialect by name; asking for one that is not there is refused."""

    def __missing__(self, name: str) -> Statement:
        from difflib import get_close_matches

        near = ", ".join(get_close_matches(name, self)) or "none"
        raise StatementRefused(f"there is none of that name; near: {near}", statement=name)


def sql_folder() -> Path:
    """Give the folder of SQL files inside the installed package, which is always one of files."""
    return Path(__file__).with_name("sql")


def load_statements(*, dialect: str, folder: Path | None = None) -> Statements:
    """Read `queries.sql` and the dialect's `overrides.sql`, if there is one, from `folder`.

    Raises:
        ValueError: a statement without a valid name, guarantee or text, one named twice, or an override that
            replaces nothing or does not say why it differs.
    """
    folder = sql_folder() if folder is None else folder
    by_name = _parse((folder / "queries.sql").read_text(encoding="utf-8"), "queries.sql")
    overrides = folder / dialect / "overrides.sql"
    if overrides.is_file():
        source = f"{dialect}/overrides.sql"
        for name, statement in _parse(overrides.read_text(encoding="utf-8"), source).items():
            if name not in by_name:
                raise ValueError(f"{source}: {name} overrides nothing in queries.sql")
            if "differs because" not in statement.guarantee.lower():
                raise ValueError(f"{source}: {name} does not say 'Differs because'")
            by_name[name] = statement
    return Statements(by_name)


def _parse(text: str, source: str) -> dict[str, Statement]:
    statements: dict[str, Statement] = {}
    name = ""
    lines: list[str] = []
    for line in [*text.splitlines(), "-- name: end_of_file"]:
        header = _HEADER.match(line) if line.startswith("--") else None
        if header is None:
            lines.append(line)
            continue
        if name:
            if name in statements:
                raise ValueError(f"{source}: {name} is named twice")
            statements[name] = _statement(name, lines, source)
        elif any(line.strip() and not line.startswith("--") for line in lines):
            raise ValueError(f"{source}: text before the first '-- name:'")
        name = header["name"]
        lines = []
    return statements


def _statement(name: str, lines: list[str], source: str) -> Statement:
    if not _NAME.match(name):
        raise ValueError(f"{source}: {name!r} is no name; lower-case letters, digits and '_'")
    comments: list[str] = []
    for line in lines:
        if not line.startswith("--"):
            break
        comments.append(line.removeprefix("--").strip())
    guarantee = " ".join(comments).strip()
    sql = _without_trailing_comments(lines[len(comments) :]).removesuffix(";").rstrip()
    if not guarantee:
        raise ValueError(f"{source}: {name} has no comment that gives its guarantee")
    if not sql:
        raise ValueError(f"{source}: {name} has no text")
    return Statement(name=name, guarantee=guarantee, sql=sql)


def _without_trailing_comments(lines: list[str]) -> str:
    """Drop blank lines and comments at the end: they head the next section, not this statement."""
    kept = list(lines)
    while kept and (not kept[-1].strip() or kept[-1].startswith("--")):
        kept.pop()
    return "\n".join(kept).strip()
