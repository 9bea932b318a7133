"""What reaches the model: faults as well as answers, whatever a client does to them on the way."""

from clients.driver import Driver
from clients.scripted_model import Say, ScriptedModel, prompt_of
from clients.story import BEGIN, RUN, World


def test_a_fault_reaches_the_model_with_its_code_and_what_to_do(
    client: Driver, model: ScriptedModel, world: World
) -> None:
    client.configure({"counterfoil": world.counterfoil("serve")})
    # One that no client can tell beforehand from the schema.
    unknown = {"run": RUN, "key": "never-begun"}
    model.scripts["work"] = [
        client.call("counterfoil", "check_operation", unknown),
        client.call("counterfoil", "begin_operation", BEGIN),
        Say("It goes on."),
    ]
    client.run(prompt_of("work"))
    fault, begun = model.shown("work")
    assert "not_found" in fault.text
    assert "fix" in fault.text
    assert begun.at("next") == "perform"
