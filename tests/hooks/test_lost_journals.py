"""A journal that was used and is gone: none is made in its place, and a strange one is told of."""

import shutil
from pathlib import Path

import anyio

from counterfoil.server.opener import open_from
from counterfoil.server.settings import load_settings
from hooks.client import Client, at_remote, client, git

__all__ = ["client"]

JOURNAL = ".local/share/counterfoil/journal.db"


def mark(client: Client) -> Path:
    (found,) = (client.home / ".local/state/counterfoil/journals").iterdir()
    return found


def begin_elsewhere(client: Client) -> None:
    """Make the journal anew, as a server does that starts and finds none."""

    async def work() -> None:
        async with open_from(load_settings(environment={"HOME": str(client.home)})):
            pass

    anyio.run(work)


def test_a_journal_that_was_used_and_is_gone_is_not_made_anew_and_no_effect_runs(client: Client):
    client.does("git push -u origin main")
    place = client.home / JOURNAL
    kept = place.read_bytes()
    shutil.rmtree(place.parent)
    for command in ("git push -u origin main", "npm publish"):
        reason = client.before(command).reason
        assert reason is not None
        assert "is gone" in reason
        assert str(place) in reason
        assert str(mark(client)) in reason
    assert client.ask("hook", "explain", "npm publish")["now"]["would"] == "block"
    assert not place.exists()
    assert "is gone" in client.tell("SessionStart", source="startup").context
    place.parent.mkdir()
    place.write_bytes(kept)
    assert "on record as done" in str(client.before("git push -u origin main").reason)
    assert client.tell("SessionStart", source="startup").out == ""


def test_a_result_whose_journal_went_away_meanwhile_makes_none_and_is_told(client: Client):
    call = client.new_call()
    client.before("git push -u origin main", call=call)
    client.run("git push -u origin main")
    shutil.rmtree((client.home / JOURNAL).parent)
    said = client.after("git push -u origin main", {"stdout": "", "stderr": "", "exit_code": 0}, call=call)
    assert "could NOT record" in said.context
    assert "is gone" in said.context
    assert not (client.home / JOURNAL).exists()


def test_a_person_who_wants_a_new_journal_deletes_the_mark(client: Client):
    client.does("git push -u origin main")
    shutil.rmtree((client.home / JOURNAL).parent)
    mark(client).unlink()
    said = client.before("git push -u origin main")
    assert (said.out, said.err) == ("", "")
    assert [one["state"] for one in client.operations()] == ["in_progress"]


def test_another_journal_at_the_place_is_told_of_once(client: Client):
    client.does("git push -u origin main")
    shutil.rmtree((client.home / JOURNAL).parent)
    begin_elsewhere(client)
    told = client.before("git push -u origin main")
    assert told.reason is None
    assert "another one than was used before" in told.context
    assert "another" not in client.before("npm publish").context
    assert at_remote(client) == git(client, "rev-parse", "HEAD")


def test_a_session_that_begins_is_told_of_another_journal(client: Client):
    client.does("git push -u origin main")
    shutil.rmtree((client.home / JOURNAL).parent)
    begin_elsewhere(client)
    assert client.tell("Stop", stop_hook_active=False).out == ""
    assert "another one than was used before" in client.tell("SessionStart", source="startup").context
    assert client.tell("SessionStart", source="startup").out == ""


def test_a_state_folder_that_cannot_be_used_holds_nothing_up(client: Client):
    (client.home / ".local").mkdir()
    (client.home / ".local/state").write_text("a file")
    said = client.before("git push -u origin main")
    assert (said.out, said.err) == ("", "")
    assert "was interrupted" in str(client.before("git push -u origin main").reason)
