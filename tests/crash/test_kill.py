"""``kill -9`` at any moment: a complete release or none, never uncharged, and nothing private after the next start.

20 kills in the tests, ``DIMLY_KILLS`` of them in ``make torture``. Kill number i is drawn from the seed
``DIMLY_KILL_SEED`` (0 by default) and i. Its kind and what it waits for come from a cycle of twenty: either the whole
run, where the moment is uniform from the first sign of the run to a little after its usual end; or something that can
be seen from outside, and then up to 10 ms more, because what must not be torn apart there takes a few milliseconds.

What is asserted holds at every moment, so that a slow or a busy machine raises no false alarm: a run that ends before
it is killed must have published.
"""

import signal
from typing import Literal, NamedTuple

import pytest
from tests.crash.conftest import Published
from tests.crash.kills import JITTER, KILLS, share
from tests.crash.scenes import DATASET, NEWCOMERS, Ended, Event, Run, Scene, person

import dimly
from dimly.curator.ledger.ledger import Ledger
from dimly.errors import BudgetError

_BEYOND = 1.05

Kind = Literal["publish", "overwrite", "append", "update"]
CYCLE: tuple[tuple[Kind, Event | None], ...] = (
    ("publish", None),
    ("overwrite", "visible"),
    ("append", "sampling"),
    ("publish", "spilling"),
    ("overwrite", None),
    ("publish", "sealed"),
    ("append", "visible"),
    ("publish", None),
    ("update", None),
    ("overwrite", "sealed"),
    ("publish", "sampling"),
    ("append", "sealed"),
    ("publish", "visible"),
    ("overwrite", "sampling"),
    ("publish", "staging"),
    ("publish", None),
    ("append", None),
    ("update", "visible"),
    ("publish", "part"),
    ("overwrite", None),
)


class Kill(NamedTuple):
    """One kill: of what, after which event, and at what part of the time that may pass then."""

    kind: Kind
    event: Event | None
    share: float

    def strike(self, run: Run, usual: float) -> Ended:
        """Kill a run at this moment."""
        if self.event is None:
            run.wait_for("staging", seconds=self.share * _BEYOND * usual)
        else:
            run.wait_for(self.event, seconds=self.share * JITTER)
        ended = run.end(signal.SIGKILL)
        assert ended.code in (0, -signal.SIGKILL), ended.err
        return ended


def kills(kind: Kind) -> "pytest.MarkDecorator":
    """Run a test once for each kill of a kind."""
    drawn = {number: Kill(*CYCLE[number % len(CYCLE)], share(number)) for number in range(KILLS)}
    chosen = {number: kill for number, kill in drawn.items() if kill.kind == kind}
    return pytest.mark.parametrize("kill", chosen.values(), ids=[f"{n}-{kill.event}" for n, kill in chosen.items()])


def check_release(scene: Scene, ended: Ended) -> None:
    """Check what must hold after every kill, up to the next start."""
    scene.check_all_charged()
    scene.check_left_by_kill()
    if ended.code == 0:
        assert (scene.charges()[-1].state, scene.leftovers()) == ("visible", [])


@kills("publish")
@pytest.mark.thorough(but=3)
def test_a_release_is_complete_or_not_there(kill: Kill, scene: Scene, widely_published: Published) -> None:
    with scene.start(out=scene.target, wide=True) as run:
        ended = kill.strike(run, widely_published.seconds)
    check_release(scene, ended)
    assert scene.target.exists() or ended.code != 0
    assert [charge.counts for charge in scene.charges()] in ([], [True])
    scene.start_again()


@kills("overwrite")
@pytest.mark.thorough(but=2)
def test_the_old_release_is_there_or_the_new_one(kill: Kill, published_scene: Scene, published: Published) -> None:
    scene = published_scene
    with scene.start("--overwrite", out=scene.target) as run:
        ended = kill.strike(run, published.seconds)
    check_release(scene, ended)
    (seen,) = scene.releases().values()
    _, *new = scene.charges()
    assert seen in {published.id, *(charge.release_id for charge in new)}
    assert sum(charge.counts for charge in scene.charges()) == 1 + len(new)  # the old one may have been copied
    scene.start_again()


@kills("append")
@pytest.mark.thorough(but=2)
def test_a_release_that_grows_is_the_old_or_the_new_one(
    kill: Kill, published_scene: Scene, published: Published
) -> None:
    scene = published_scene
    with scene.start("--append", scene.target, table=scene.inputs.newcomers) as run:
        ended = kill.strike(run, published.seconds)
    check_release(scene, ended)
    (seen,) = scene.releases().values()
    _, *new = scene.charges()
    assert seen in {published.id, *(charge.release_id for charge in new)}
    if any(charge.n_users is not None for charge in new):  # noise may have been drawn for them, and seen
        told = f"dimly ledger forgive .* {new[0].id} " if seen == published.id else "already in it"
        with pytest.raises(BudgetError, match=told):
            append(scene)
        if seen == published.id:
            Ledger(scene.ledger).forgive(
                new[0].id, reason="nobody saw the folder", force=new[0].sampling_at is not None
            )
    if seen == published.id:
        append(scene)
        (seen,) = scene.releases().values()
        assert seen == scene.charges()[-1].release_id
    scene.start_again()


@kills("update")
@pytest.mark.thorough(but=1)
def test_an_update_leaves_the_old_release_alone(kill: Kill, published_scene: Scene, published: Published) -> None:
    scene = published_scene
    new = scene.parent / "updated"
    with scene.start("--update", scene.target, out=new) as run:
        ended = kill.strike(run, published.seconds)
    check_release(scene, ended)
    assert scene.releases()[scene.target] == published.id
    assert new.exists() or ended.code != 0
    scene.start_again()


def append(scene: Scene) -> None:
    """Add the newcomers to the release of a scene."""
    dimly.publish(
        scene.inputs.newcomers,
        scene.inputs.plan,
        user="person",
        attribute="page",
        roster=[person(number) for number in NEWCOMERS],
        append=scene.target,
        ledger=scene.ledger,
        dataset=DATASET,
        temp=scene.temp,
    )


def test_what_is_looked_for_is_there_to_be_found(scene: Scene) -> None:
    # The power of the checks above: a run that is killed while it sorts does leave private rows, in the clear.
    with scene.start(out=scene.target) as run:
        run.wait_for("spilling", seconds=0.1)
        assert run.end(signal.SIGKILL).code == -signal.SIGKILL
    assert len(scene.leftovers()) == 2
    with pytest.raises(AssertionError):
        scene.check_nothing_private()
    scene.start_again()
