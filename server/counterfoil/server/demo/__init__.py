"""Shows the promise in a few seconds: an agent is killed before its receipts, another finishes its run.

Nothing is faked: real servers over stdio, real client sessions, real outside systems, a real SIGKILL. And a
naive retry is really run, against outside systems of its own, so that the two can be compared.
"""

__all__ = ["run_demo"]


def run_demo(*, as_json: bool) -> int:
    """Run the demo, tell it on stdout, and give the exit code.

    0 only if with Counterfoil every effect took place exactly once, and the one that can neither be looked
    up nor repeated at most once and ended as a question to a person; otherwise 1, and what went wrong is
    told. Everything is made in a temporary folder and removed; no process is left behind.
    """
    # Loaded here so that whoever imports the name does not load what only the demo needs.
    from counterfoil.server.demo.course import run_course
    from counterfoil.server.demo.story import Silence, Story, told_as_json

    story = Silence() if as_json else Story()
    outcome = run_course(story)
    if as_json:
        told_as_json(outcome)
    else:
        story.ending(outcome)
    return 0 if outcome.is_kept else 1
