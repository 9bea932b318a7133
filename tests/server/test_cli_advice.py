"""A person is told what a person can do, in commands; agents are told of tools, as ever."""

import json
import re
from pathlib import Path

import pytest

from command_line import RUN, CommandLine, cli, journal, state_of
from counterfoil.server.people.advice import ADVICE, WORDS_FOR_AGENTS, advice, fix_for_person
from counterfoil.server.people.cli import cli as every_command
from counterfoil.store.domain.answers import GUIDANCE
from counterfoil.store.errors import Ambiguous, Fault, InvalidArgument, JournalUnavailable, NotFound
from counterfoil.tools.catalogue import ALL_TOOLS

__all__ = ["cli", "journal"]

_COMMAND = re.compile(r"`counterfoil ([^`]*)`")


def test_every_answer_that_a_person_may_see_has_words_for_a_person() -> None:
    told = {verb for verb in GUIDANCE if verb[0] != "perform"}
    assert told == ADVICE.keys()
    assert {tool.name for tool in ALL_TOOLS} <= set(WORDS_FOR_AGENTS)
    for next_, reason in ADVICE:
        for state in (None, "planned", "in_progress", "in_doubt", "failed", "succeeded"):
            words = advice(next_, reason, state=state, it="op_x")
            assert not any(word in words for word in WORDS_FOR_AGENTS)
            assert words.endswith((".", ")."))
            assert "{" not in words


def test_every_command_that_is_advised_is_there_and_takes_what_it_is_given() -> None:
    advised = {command for words in ADVICE.values() for command in _COMMAND.findall(words)}
    assert len(advised) > 8
    for command in advised:
        name, *words = command.replace("{it}", "op_x").split()
        known = {option for parameter in every_command.commands[name].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, command


def test_a_plan_and_a_page_say_which_command_settles_what_is_in_doubt(
    cli: CommandLine, journal: Path
) -> None:
    plan = " ".join(cli("plan", RUN).out.split())
    assert "in_doubt: It may have happened, and nobody knows" in plan
    assert "`counterfoil reconcile OPERATION --finding performed" in plan
    page = " ".join(cli("show", RUN, "email:alice").out.split())
    operation = state_of(journal, RUN, "email:alice")["operation"]
    assert f"`counterfoil reconcile {operation} --finding performed" in page
    for text in (plan, page):
        assert not any(word in text for word in WORDS_FOR_AGENTS)


def test_programs_are_told_what_agents_are_told(cli: CommandLine, journal: Path) -> None:
    plan = json.loads(cli("plan", RUN, "--json").out)
    page = json.loads(cli("show", RUN, "email:alice", "--json").out)
    assert plan["guidances"]["in_doubt"] == page["guidance"] == GUIDANCE["reconcile", "in_doubt"]
    assert json.loads(cli("show", "foo", "--json").out)["fix"].endswith(
        "as begin_operation gave it, or run and key"
    )


def test_two_verbs_of_one_reason_are_each_explained(cli: CommandLine, journal: Path) -> None:
    shown = cli("plan", "rent/2026-11").out
    assert "ask, disputed: Two effects" in shown


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("show", "op_" + 20 * "a"), 1),
        (("show", "no-such-run", "a key"), 1),
        (("show", RUN, "no such key"), 1),
        (("show", "foo"), 2),
        (("plan", "no-such-run"), 1),
        (("tail", "no-such-run"), 1),
        (("release", "no-such-run", "--reason", "gone"), 1),
        (("close", "op_" + 20 * "a", "--outcome", "cancelled", "--reason", "gone"), 1),
    ],
)
def test_what_is_not_there_is_looked_for_with_commands(
    cli: CommandLine, journal: Path, words: tuple[str, ...], code: int
) -> None:
    answer = cli(*words)
    assert answer.code == code
    assert "`counterfoil " in answer.err
    assert not any(word in answer.err for word in WORDS_FOR_AGENTS)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Ambiguous("two", fix="check one by check_operation"), "name one of them"),
        (NotFound("none", fix="resume_plan lists them"), "`counterfoil runs --all`"),
        (InvalidArgument("x", "is wrong", accepted="as begin_run takes it"), "by its id"),
        (
            JournalUnavailable(
                "gone",
                fix="send the same call again with the same call_id: it is recorded once; look at the disk",
                recorded=None,
            ),
            "run the command again if it was not; look at the disk",
        ),
        (Fault("other", fix="call finish_run"), "`counterfoil check`"),
        (Fault("other", fix="make room on the disk"), "make room on the disk"),
    ],
)
def test_a_fault_says_what_a_person_can_do_about_it(fault: Fault, words: str) -> None:
    assert words in fix_for_person(fault)
