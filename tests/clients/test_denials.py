"""What a client tells of a call that it did not let run after the hook had let it through."""

import shlex

import pytest

from clients.claude_code import ClaudeCode
from clients.conftest import require
from clients.scripted_model import Say, ScriptedModel, prompt_of
from clients.story import RUN, World

pytestmark = pytest.mark.client


def test_a_call_that_the_client_itself_denied_is_told_as_never_sent_and_may_run_later(
    tmp_path, model: ScriptedModel, world: World
) -> None:
    require(ClaudeCode.name)
    client = ClaudeCode(tmp_path, model)
    client.configure({})
    client.install("--config", str(world.configure(client.work)))
    send = shlex.join([str(world.folder / "send-letter"), "alice@example.org", "Invoice 42", "invoice-42"])
    model.scripts |= {
        "denied": [client.shell(send), Say("It was not sent.")],
        "allowed": [client.shell(send), Say("Sent.")],
    }

    # Auto mode denies whatever its own check cannot be asked about, as here: the model offers none.
    client.mode = "auto"
    client.run(prompt_of("denied"))
    assert world.spool.letters() == []
    [step] = world.ask("plan", RUN)["steps"]
    shown = world.ask("show", step["operation"])
    assert shown["state"] == "failed"
    assert "the client did not permit the call, and it never ran" in str(shown)

    client.mode = None
    client.run(prompt_of("allowed"), resumes=True)
    assert len(world.spool.letters()) == 1
    assert world.ask("show", step["operation"])["state"] == "succeeded"
    client.close()
