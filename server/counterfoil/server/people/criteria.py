"""Reads criteria out of a specification for people, and gives them to a run: `spec`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import click
from rich.text import Text

from counterfoil.server.people import rendering as show
from counterfoil.server.people.advice import advice
from counterfoil.server.people.output import write, write_json
from counterfoil.server.people.request import Request
from counterfoil.server.people.teaching import teaching_command
from counterfoil.server.specs import SpecFile, read_spec
from counterfoil.store.domain.commands import SetSpec

if TYPE_CHECKING:
    from counterfoil.store.domain.commands import Spec

__all__ = ["spec"]


@teaching_command(
    short="read criteria out of a specification",
    examples=[
        "counterfoil spec specs/001-albums/spec.md",
        "counterfoil spec spec.md --json                    as begin_run takes it",
        "counterfoil spec spec.md --run weekly-report/2026-W48",
    ],
)
@click.argument("file", metavar="FILE")
@click.option("--run", "run", metavar="RUN", help="Hold this run, which has begun, against them.")
def spec(request: Request, file: str, *, run: str | None) -> int:
    """Read the criteria of a specification: Spec Kit (FR-001, SC-001) or OpenSpec (Requirement, Scenario).

    With --run, the run is held against them from now on: its plan shows where each stands, and it is not
    finished as completed before every required one is met. A criterion that is worded anew is stale until
    new evidence comes.
    """
    read = read_spec(Path(file))
    answer = None if run is None else _given(request, run, read.spec)
    if request.as_json:
        shown = _as_given(read)
        write_json(shown if answer is None else {**answer, "spec": shown})
    else:
        write(show.rendered(*_lines(read)))
        if answer is not None:
            write(show.rendered(Text(""), *_outcome(answer)))
    return 0 if answer is None or answer["next"] == "continue" else 1


def _given(request: Request, run: str, given: "Spec") -> dict[str, Any]:
    async def work() -> dict[str, Any]:
        async with request.journal() as journal:
            return await journal.set_spec(SetSpec(run=run, spec=given), request.caller("spec"))

    return anyio.run(work)


def _as_given(read: SpecFile) -> dict[str, Any]:
    """Give the specification as the argument `spec` of begin_run."""
    return {
        "uri": read.spec.uri,
        "digest": read.spec.digest,
        "criteria": [
            {"id": one.id, "text": one.text, "required": one.required} for one in read.spec.criteria
        ],
    }


def _lines(read: SpecFile) -> list[Any]:
    criteria = read.spec.criteria
    required = sum(one.required for one in criteria)
    return [
        show.facts(
            [
                ("specification", show.plain(read.spec.uri)),
                ("digest", show.plain(read.spec.digest)),
                ("read as", show.plain(read.format)),
                ("criteria", show.plain(f"{len(criteria)}, of which {required} required")),
            ]
        ),
        Text(""),
        show.table(
            "id",
            "required",
            "text",
            rows=[(one.id, "yes" if one.required else "no", one.text) for one in criteria],
            narrow=["required"],
            whole=["id"],
        ),
    ]


def _outcome(answer: dict[str, Any]) -> list[Any]:
    words = {
        "recorded": "The run is held against them from now on.",
        "duplicate": "The run was held against them already.",
        "run_finished": "The run is finished: it takes no other specification.",
    }
    name, reason = answer["run"], answer["reason"]
    return [
        Text.assemble(show.plain(name), ": ", show.plain(words.get(reason, advice(answer["next"], reason))))
    ]
