"""By hooks alone: the model only runs commands, and the client itself tells the journal of each."""

import shlex

from clients.driver import Driver, wait_for
from clients.scripted_model import Say, ScriptedModel, prompt_of
from clients.story import RUN, World, description_of
from counterfoil.server.installing.targets import skill_text


def test_a_command_is_run_once_when_its_client_is_killed_before_its_end(
    client: Driver, model: ScriptedModel, world: World
) -> None:
    configuration = world.configure(client.work)
    client.configure({})
    client.install("--config", str(configuration))
    send = shlex.join([str(world.folder / "send-letter"), "alice@example.org", "Invoice 42", "invoice-42"])
    find = shlex.join([str(world.folder / "find-letters"), "invoice-42"])
    model.scripts |= {
        "first": [client.shell(send)],
        "second": [client.shell(send), client.shell(find), Say("It was sent; a person settles it.")],
        "third": [client.shell(send), Say("It is settled.")],
    }
    world.spool.hold()
    first = client.start(prompt_of("first"))
    wait_for(lambda: bool(world.spool.letters()) or first.has_ended, "the letter")
    assert world.spool.letters(), (model.problems, client.told())
    client.kill(first)
    world.spool.let_go()

    client.run(prompt_of("second"), resumes=True)
    [letter] = world.spool.letters()
    denied, found = model.shown("second")
    assert "Counterfoil blocked this call" in denied.text
    assert found.at(0) == letter
    [step] = world.ask("plan", RUN)["steps"]
    # A client that tells of a resumption ends what was under way; elsewhere the lease has to run out.
    expected = ("reconcile", "in_doubt") if client.tells_of_resumption else ("wait", "lease_held")
    assert (step["next"], step["reason"]) == expected
    assert step["operation"] in denied.text

    world.decide(step["operation"], letter["message_id"])
    client.run(prompt_of("third"), resumes=True)
    assert "on record as done" in model.shown("third")[0].text
    assert world.spool.letters() == [letter]
    assert world.ask("show", step["operation"])["state"] == "succeeded"
    assert model.was_shown(description_of(skill_text())), "the skill that was installed"
