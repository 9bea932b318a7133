"""Through the gateway alone: the model only calls the spool, and the gateway before it keeps the journal."""

from clients.driver import Driver, wait_for
from clients.scripted_model import Say, ScriptedModel, prompt_of
from clients.story import World

LETTER = {"to": "alice@example.org", "text": "Please find enclosed invoice 42.", "reference": "invoice-42"}


def test_a_call_is_passed_on_once_when_its_client_is_killed_before_the_answer(
    client: Driver, model: ScriptedModel, world: World
) -> None:
    client.configure({"spool": world.gateway(client.work)})
    model.scripts |= {
        "first": [client.call("spool", "send_letter", LETTER)],
        "second": [client.call("spool", "send_letter", LETTER), Say("It was sent.")],
    }
    world.spool.hold()
    first = client.start(prompt_of("first"))
    wait_for(lambda: bool(world.spool.letters()) or first.has_ended, "the letter")
    assert world.spool.letters(), (model.problems, client.told())
    client.kill(first)
    world.spool.let_go()
    wait_for(lambda: world.only_state() == "in_doubt", "the end of the lease")

    client.run(prompt_of("second"), resumes=True)

    [letter] = world.spool.letters()
    [answered] = model.shown("second")
    assert letter["message_id"] in answered.text
    assert world.only_state() == "succeeded"
