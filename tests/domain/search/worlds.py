"""The small worlds that are searched, and what is assumed of providers and users in each (STATES.md, end)."""

from dataclasses import dataclass, replace

__all__ = [
    "APART",
    "ASSUMPTIONS",
    "CELLS",
    "COLUMNS",
    "DROPPED",
    "FEATURES",
    "WIDE",
    "WORLDS",
    "Dropped",
    "World",
]

ASSUMPTIONS = {
    "A1": "a holder sends nothing later than the settle time after its attempt ended",
    "A2": "a sent request is applied or dead within the settle time",
    "A3": "an effect is visible to the lookup within the settle time",
    "A4": "a settled lookup misses nothing",
    "A5": "a lookup never takes another operation's effect for this one",
    "A6": "a returning session finds the key, or the same action and target",
    "A7": '"none, with evidence" is true',
    "A8": "the provider keeps the key for key_ttl_seconds",
    "A9": "call ids are not reused while an attempt is live",
    "A10": "one grant is one request",
    "A11": 'a person says "not performed" only when nothing can still arrive',
    "A12": "a lookup declared conclusive excludes late arrival",
    "A13": "the provider's clock is within the tolerance",
}
ALL = frozenset(ASSUMPTIONS)


@dataclass(frozen=True, kw_only=True)
class World:
    """One small world. Durations are in ticks of the coarse clock; what is False or 0 does not happen.

    `horizon`: the last tick. `attempts`: how many grants are explored. `keys`: how many keys the sessions
    may use for the one effect that they all want. `holds`: the assumptions that providers and users keep.
    """

    name: str
    repeat: str | None = None
    key_ttl: float | None = None
    has_lookup: bool = True
    is_conclusive: bool = False
    required: str = "reported"
    deadline: int | None = None
    lease: int = 1
    horizon: int = 4
    sessions: int = 2
    attempts: int = 2
    keys: int = 1
    refusals: bool = True
    """The provider may refuse a request, and says so."""
    late_replies: bool = False
    """The reply to a request that took long may still reach its sender."""
    lag: bool = False
    """An effect may be there before the lookup shows it."""
    acknowledgements: bool = False
    heartbeats: bool = False
    closes: bool = False
    """Sessions may decide to stop waiting or to give up."""
    people: int = 0
    """How often a person may say something that changes the facts."""
    hasty: bool = False
    """Sessions also look where nobody sent them to, while the lease lives."""
    own_sights: bool = False
    """Each session keeps what it saw last; otherwise what any of them saw last is kept."""
    unclear: bool = False
    """A look may show nothing either way."""
    nameless: bool = False
    """Receipts also come without the number of their attempt."""
    other_effects: bool = False
    """A session may use the key for another effect."""
    looser: str | None = None
    """What the second session says of `repeat`."""
    is_undo: bool = False
    """The second key is not another name for the effect: it is the operation that undoes it."""
    apart: bool = False
    """A1, A2 and A3 hold each by itself, one settle time after the other."""
    redelivery: bool = False
    """The transport may lose an answer to a begin, and deliver every begin again at any time."""
    erring: bool = False
    """Lookups err, so that effects may double; all other rules still hold."""
    holds: frozenset[str] = ALL


def _named(*worlds: World) -> dict[str, World]:
    return {world.name: world for world in worlds}


COLUMNS = _named(
    World(name="unsafe, with a lookup", horizon=3),
    World(
        name="unsafe, no lookup",
        has_lookup=False,
        horizon=2,
        people=1,
        holds=frozenset(("A6", "A7", "A9", "A10", "A11")),
    ),
    World(
        name="keyed, the key alive",
        repeat="keyed",
        key_ttl=100,
        horizon=1,
        holds=frozenset(("A5", "A6", "A7", "A8", "A9", "A10")),
    ),
    World(name="keyed, the key may end", repeat="keyed", key_ttl=3, lease=2, horizon=3),
)
"""The columns of the table of assumptions: in each world only those hold that its column names.

A5 is asked for wherever anybody looks, and sessions look under a live key too.
"""

FEATURES = _named(
    World(name="late and lagging", late_replies=True, lag=True, horizon=3, refusals=False),
    World(name="hasty looks", hasty=True, own_sights=True, horizon=2, refusals=False),
    World(name="a conclusive lookup", is_conclusive=True, horizon=2),
    World(name="time-outs made authoritative", closes=True, late_replies=True, horizon=2, nameless=True),
    World(name="a deadline", deadline=2, has_lookup=False, late_replies=True, people=1, horizon=2),
    World(
        name="lookups that err, and a higher assurance",
        required="captured",
        erring=True,
        refusals=False,
        horizon=2,
        holds=ALL - {"A4"},
    ),
    World(
        name="keyed, three attempts",
        repeat="keyed",
        key_ttl=100,
        has_lookup=False,
        horizon=0,
        attempts=3,
        sessions=1,
    ),
    World(name="another key", keys=2, horizon=3, refusals=False),
    World(
        name="an undoing",
        keys=2,
        is_undo=True,
        has_lookup=False,
        late_replies=True,
        people=1,
        sessions=1,
        attempts=3,
        horizon=1,
    ),
    World(name="another effect", other_effects=True, horizon=2),
    World(name="a looser word", looser="safe", horizon=2),
    World(name="calls delivered again", redelivery=True, horizon=2),
    World(name="acknowledgements", acknowledgements=True, sessions=1, horizon=3, refusals=False),
    World(name="heartbeats", heartbeats=True, horizon=2, refusals=False),
    World(name="safe", repeat="safe", horizon=1),
    World(name="people", people=1, horizon=1, refusals=False),
    World(
        name="people who err",
        has_lookup=False,
        people=2,
        erring=True,
        refusals=False,
        horizon=1,
        holds=ALL - {"A11"},
    ),
)
"""What else can happen, each in a world of its own."""

WORLDS = {**COLUMNS, **FEATURES}
"""What is searched each time."""


@dataclass(frozen=True, kw_only=True)
class Dropped:
    """An assumption that one world does without, and the rule that this costs."""

    assumption: str
    world: World
    costs: str = "no effect happens twice"

    @property
    def without(self) -> World:
        """The world in which it does not hold."""
        return replace(
            self.world,
            name=f"{self.world.name}, without {self.assumption}",
            holds=self.world.holds - {self.assumption},
        )


WIDE = _named(
    replace(COLUMNS["keyed, the key alive"], name="keyed, the key alive, and people", people=1),
    replace(FEATURES["people"], name="people, longer", horizon=2),
    replace(COLUMNS["unsafe, with a lookup"], name="unsafe, with a lookup, longer", horizon=4),
    replace(COLUMNS["unsafe, with a lookup"], name="unsafe, with a lookup, three attempts", attempts=3),
    replace(COLUMNS["unsafe, with a lookup"], name="unsafe, with a lookup, three sessions", sessions=3),
    replace(COLUMNS["keyed, the key may end"], name="keyed, the key may end, longer", horizon=4),
    replace(
        COLUMNS["keyed, the key may end"],
        name="keyed, the key may end, and people",
        people=1,
        refusals=False,
        horizon=2,
    ),
    replace(FEATURES["late and lagging"], name="late and lagging, longer", horizon=4, refusals=True),
    replace(FEATURES["a deadline"], name="a deadline, longer", horizon=3),
    replace(FEATURES["an undoing"], name="an undoing, two sessions", sessions=2, people=0),
    replace(FEATURES["heartbeats"], name="heartbeats, three attempts", attempts=3),
)
"""Larger worlds, searched on request."""

_LOOKED_UP = replace(COLUMNS["unsafe, with a lookup"], refusals=False)

APART = replace(_LOOKED_UP, name="unsafe, with a lookup, each in its own time", apart=True)
"""The settle time has to cover late sending, arriving and showing together; here it does not."""

DROPPED = (
    Dropped(assumption="A1", world=_LOOKED_UP),
    Dropped(assumption="A2", world=_LOOKED_UP),
    Dropped(assumption="A3", world=replace(_LOOKED_UP, lag=True)),
    Dropped(assumption="A4", world=_LOOKED_UP),
    Dropped(assumption="A5", world=_LOOKED_UP, costs="succeeded is true"),
    Dropped(assumption="A6", world=FEATURES["another key"]),
    Dropped(assumption="A7", world=COLUMNS["unsafe, no lookup"]),
    Dropped(assumption="A8", world=COLUMNS["keyed, the key may end"]),
    Dropped(assumption="A9", world=COLUMNS["unsafe, no lookup"]),
    Dropped(assumption="A10", world=COLUMNS["unsafe, no lookup"]),
    Dropped(assumption="A11", world=COLUMNS["unsafe, no lookup"]),
    Dropped(assumption="A12", world=FEATURES["a conclusive lookup"]),
    Dropped(assumption="A13", world=_LOOKED_UP),
)
"""Each assumption, dropped alone in a world that is sound with it."""


def _cells() -> tuple[Dropped, ...]:
    """Every assumption that a column names and that its world can show to be needed there."""
    unsafe = replace(COLUMNS["unsafe, with a lookup"], refusals=False)
    ending = replace(COLUMNS["keyed, the key may end"], refusals=False, horizon=4)
    alive, blind = COLUMNS["keyed, the key alive"], COLUMNS["unsafe, no lookup"]
    cells = []
    for world, names in (
        (unsafe, ("A1", "A2", "A3", "A4", "A5", "A6", "A7", "A9", "A10", "A11", "A13")),
        (blind, ("A6", "A7", "A9", "A10", "A11")),
        (alive, ("A5", "A6", "A7", "A9", "A10")),
        (ending, ("A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "A10", "A11", "A13")),
    ):
        for name in names:
            changed = replace(
                world,
                keys=2 if name == "A6" else 1,
                lag=name == "A3",
                refusals=world.refusals or name == "A10",
                people=1 if name == "A11" else world.people,
            )
            costs = "succeeded is true" if name == "A5" else "no effect happens twice"
            cells.append(Dropped(assumption=name, world=changed, costs=costs))
    return tuple(cells)


CELLS = _cells()
"""The table of assumptions, cell by cell: each dropped alone in the world of its column."""
