"""The watermarks: what is dispatched, committed, held and may be dropped (R3, R4, R17)."""

from __future__ import annotations

import random
from functools import partial

import pytest

from spirit_py.chunk.chunk import Chunk, KeyRange
from spirit_py.chunk.watermark import CopiedSoFar, OpenEnd, Rest, WatermarkTracker
from spirit_py.table.keys import KeyBound
from tests.kits.chunks import between, bound, chunk, rest
from tests.kits.draw import seed_of

ASCENDING = (False,)


def above(tracker: WatermarkTracker, *keys: int) -> list[int]:
    """Return the keys whose changes may be dropped."""
    return [key for key in keys if tracker.above_high((key,))]


def held(tracker: WatermarkTracker, *keys: int) -> list[int]:
    """Return the keys whose changes must wait."""
    return [key for key in keys if tracker.held((key,))]


def test_nothing_is_dispatched_at_first():
    """Before the first chunk every key is above the high watermark and none is held."""
    tracker = WatermarkTracker(ASCENDING)
    assert tracker.above_high((-5,))
    assert not tracker.held((-5,))
    assert tracker.copied() == CopiedSoFar()


def test_a_dispatched_chunk_holds_its_keys():
    """The lower bound is outside a chunk, the upper bound inside."""
    tracker = WatermarkTracker(ASCENDING)
    tracker.dispatch(chunk(0, None, 10))
    tracker.dispatch(chunk(1, 10, 20))
    tracker.committed(chunk(0, None, 10))
    assert held(tracker, 9, 10, 11, 20, 21) == [11, 20]
    assert above(tracker, 10, 20, 21) == [21]


def test_a_chunk_that_commits_early_is_copied():
    """It holds nothing any more, and a later run need not copy it; stamps wait all the same."""
    tracker = WatermarkTracker(ASCENDING)
    chunks = [chunk(0, None, 10), chunk(1, 10, 20), chunk(2, 20, 30)]
    for each in chunks:
        tracker.dispatch(each)
    tracker.committed(chunks[1], 7)
    assert tracker.settled == 0
    assert held(tracker, 5, 15, 25) == [5, 25]
    assert tracker.copied() == CopiedSoFar(
        uncopied=(between(None, 10), between(20, None)), rows=7, chunks=1
    )
    tracker.committed(chunks[2], 5)
    tracker.committed(chunks[0], 3)
    assert tracker.settled == tracker.dispatched == 3
    assert tracker.copied() == CopiedSoFar(uncopied=(between(30, None),), rows=15, chunks=3)


def test_the_last_chunk_ends_everything():
    """After the open-ended chunk nothing is above the high watermark."""
    tracker = WatermarkTracker(ASCENDING)
    tracker.dispatch(chunk(0, None, 10))
    tracker.dispatch(chunk(1, 10, None))
    assert not tracker.above_high((10**30,))
    assert tracker.held((10**30,))
    tracker.committed(chunk(1, 10, None))
    assert not tracker.copied().finished
    tracker.committed(chunk(0, None, 10))
    assert tracker.copied().finished


def test_a_second_report_of_a_commit_is_ignored():
    """Spark may rerun a task, so a commit may be reported twice (R18)."""
    tracker = WatermarkTracker(ASCENDING)
    tracker.dispatch(chunk(0, None, 10))
    tracker.dispatch(chunk(1, 10, 20))
    for _ in range(3):
        tracker.committed(chunk(0, None, 10), 7)
    assert (tracker.settled, tracker.rows, tracker.chunks) == (1, 7, 1)


@pytest.mark.parametrize(
    "wrong",
    [chunk(1, None, 20), chunk(1, 9, 20), chunk(0, 10, 20), chunk(1, 10, 30, lane_end=20)],
    ids=["open", "before", "twice", "beyond"],
)
def test_chunks_must_follow_each_other(wrong):
    """A chunk that reads what was dispatched before, or leaves its lane, is a bug."""
    tracker = WatermarkTracker(ASCENDING)
    tracker.dispatch(chunk(0, None, 10))
    with pytest.raises(ValueError, match="does not follow"):
        tracker.dispatch(wrong)


def test_nothing_follows_the_last_chunk():
    """After the open-ended chunk no other may be dispatched."""
    tracker = WatermarkTracker(ASCENDING)
    tracker.dispatch(chunk(0, None, None))
    with pytest.raises(ValueError, match="does not follow"):
        tracker.dispatch(chunk(1, None, None))


def test_every_lane_has_watermarks_of_its_own():
    """Three lanes: above its own lane's high mark a key may be dropped, in flight it is held."""
    tracker = WatermarkTracker(ASCENDING)
    tracker.dispatch(chunk(0, None, 10, lane_end=100))
    tracker.dispatch(chunk(1, 100, 110, lane_end=200))
    tracker.dispatch(chunk(2, 200, 210))
    assert above(tracker, 10, 11, 100, 101, 110, 111, 200, 201, 210, 211) == [
        *(11, 100),
        *(111, 200),
        211,
    ]
    assert held(tracker, 10, 11, 100, 101, 110, 111, 200, 201, 210, 211) == [10, 101, 110, 201, 210]
    tracker.committed(chunk(1, 100, 110, lane_end=200))
    assert tracker.copied().uncopied == (between(None, 100), between(110, None))
    assert held(tracker, 5, 105, 205) == [5, 205]


def test_a_lane_begins_in_the_rest_of_another():
    """The upper part of a lane becomes a lane; what lies between is still to be dispatched."""
    tracker = WatermarkTracker(ASCENDING)
    tracker.dispatch(chunk(0, None, 10, lane_end=100))
    tracker.dispatch(chunk(1, 50, 60, lane_end=100))
    assert above(tracker, 10, 11, 50, 51, 60, 61, 100, 101) == [11, 50, 61, 100, 101]
    tracker.dispatch(chunk(2, 10, 50, lane_end=50))
    tracker.dispatch(chunk(3, 60, 100, lane_end=100))
    assert above(tracker, 11, 50, 61, 100, 101) == [101]


def test_the_list_stays_as_short_as_there_are_lanes():
    """What has committed leaves nothing behind, whatever the number of lanes so far."""
    tracker = WatermarkTracker(ASCENDING)
    for n in range(1000):
        lower = None if n == 0 else n * 10
        tracker.dispatch(chunk(2 * n, lower, n * 10 + 5, lane_end=n * 10 + 10))
        tracker.dispatch(chunk(2 * n + 1, n * 10 + 5, n * 10 + 10, lane_end=n * 10 + 10))
        tracker.committed(chunk(2 * n + 1, n * 10 + 5, n * 10 + 10))
        tracker.committed(chunk(2 * n, lower, n * 10 + 5))
    assert tracker.copied().uncopied == (between(10_000, None),)


def test_resume_begins_with_what_an_earlier_run_left():
    """What is copied is neither held nor dropped; in each rest its own floor counts (R17)."""
    tracker = WatermarkTracker(ASCENDING, [rest(100, 200, (150,)), rest(300, None, (310,))])
    assert above(tracker, 100, 150, 151, 200, 201, 300, 310, 311) == [151, 200, 311]
    assert held(tracker, 50, 150, 250) == []
    tracker.dispatch(chunk(0, 100, 160, lane_end=200))
    assert held(tracker, 100, 101, 160, 161) == [101, 160]
    assert above(tracker, 150, 160, 161, 311) == [161, 311]
    assert tracker.copied().uncopied == (between(100, 200), between(300, None))


def test_both_parts_of_a_lane_keep_its_floor():
    """A lane that is cut in two may have been copied up to the floor in both parts (R17)."""
    tracker = WatermarkTracker(ASCENDING, [rest(100, 200, (160,))])
    tracker.dispatch(chunk(0, 150, 155, lane_end=200))
    assert above(tracker, 101, 150, 156, 160, 161) == [161]


def test_where_nobody_knows_the_last_key_nothing_is_above():
    """OpenEnd.END keeps every change; OpenEnd.BEGINNING leaves it to the high watermark alone."""
    end = WatermarkTracker(ASCENDING, [rest(100, None, OpenEnd.END)])
    assert not end.above_high((10**9,))
    beginning = WatermarkTracker(ASCENDING, [rest(100, None)])
    assert beginning.above_high((101,))


def test_a_copied_table_has_nothing_above_and_nothing_held():
    """An earlier run has copied every row."""
    tracker = WatermarkTracker(ASCENDING, [])
    assert tracker.copied().finished
    assert not tracker.above_high((1,))
    assert not tracker.held((1,))


def test_descending_parts_turn_the_comparison():
    """In a walk over (a, b DESC) the key (1, 5) comes before (1, 3)."""
    tracker = WatermarkTracker((False, True))
    tracker.dispatch(Chunk(number=0, lower=None, upper=bound(1, 5), target_rows=1))
    assert tracker.held((1, 6))
    assert tracker.held((1, 5))
    assert tracker.above_high((1, 4))
    assert tracker.above_high((2, 9))
    assert tracker.held((0, 0))


def text_bound(letter: str | None) -> KeyBound | None:
    """Return a bound that Python cannot compare."""
    return None if letter is None else KeyBound(literals=(f"'{letter}'",))


def text_chunk(number: int, lower: str | None, upper: str | None, end: str | None = None) -> Chunk:
    """Return a chunk over keys that Python cannot compare."""
    return Chunk(
        number=number,
        lower=text_bound(lower),
        upper=text_bound(upper),
        target_rows=1,
        lane_end=text_bound(end),
    )


def test_dispatches_are_counted_without_looking_at_keys():
    """Keys that Python cannot order: a change waits for every chunk dispatched before it."""
    tracker = WatermarkTracker(ASCENDING)
    first, second = text_chunk(0, None, "m"), text_chunk(1, "m", None)
    tracker.dispatch(first)
    stamp = tracker.dispatched
    tracker.dispatch(second)
    tracker.committed(second)
    assert tracker.settled < stamp
    tracker.committed(first)
    assert tracker.settled >= stamp
    assert tracker.copied().finished


def test_lanes_of_keys_that_are_not_comparable_stay_in_order():
    """A lane cut from the front of a rest, and one that is the upper part of another."""
    tracker = WatermarkTracker(ASCENDING)
    chunks = [
        text_chunk(0, None, "c", "m"),
        text_chunk(1, "m", "o"),
        text_chunk(2, "t", "v"),
        text_chunk(3, "f", "h", "m"),
    ]
    for each in chunks:
        tracker.dispatch(each)
    for each in chunks:
        tracker.committed(each)
    assert [str(one) for one in tracker.copied().uncopied] == [
        "('c'; 'f']",
        "('h'; 'm']",
        "('o'; 't']",
        "('v'; +inf]",
    ]


def test_comparing_keys_that_cannot_be_compared_is_a_bug():
    """A bound without a comparable form is never compared silently."""
    tracker = WatermarkTracker(ASCENDING)
    tracker.dispatch(text_chunk(0, None, "m"))
    with pytest.raises(ValueError, match="not comparable"):
        tracker.above_high(("m",))


class Model:
    """Every key from 0 to 99 by itself: its state, and how a lane may be cut from the rest."""

    def __init__(self, rng: random.Random, *, comparable: bool) -> None:
        """Begin with some ranges copied, and a floor in each of the others."""
        self.rng = rng
        self.comparable = comparable
        cuts = sorted(rng.sample(range(1, 99), rng.randrange(0, 5) * 2))
        edges = [-1, *cuts, 99]
        self.state = ["copied"] * 100
        self.floor = [-1] * 100
        self.rests: list[Rest] = []
        #: The lanes that still have a rest: keys from the first, up to the second.
        self.lanes = list(zip(edges[::2], edges[1::2], strict=True))
        for lower, upper in self.lanes:
            keep = rng.choice([-1, rng.randint(lower, upper)])
            self.rests.append(self.rest(lower, upper, keep))
            for key in range(lower + 1, upper + 1):
                self.state[key], self.floor[key] = "rest", keep
        self.running: list[tuple[Chunk, range]] = []
        self.order: list[bool] = []

    def rest(self, lower: int, upper: int, keep: int) -> Rest:
        """Return a rest; the ends of the table are open."""
        floor = OpenEnd.BEGINNING if keep < 0 else (keep,)
        return Rest(lower=self.end(lower, -1), upper=self.end(upper, 99), keep_up_to=floor)

    def end(self, key: int, open_end: int) -> KeyBound | None:
        """Return a bound."""
        if key == open_end:
            return None
        return bound(key) if self.comparable else KeyBound(literals=(str(key),))

    def cut(self) -> Chunk:
        """Cut a chunk from a lane, or from the upper part of one, or end the lane before."""
        place = self.rng.randrange(len(self.lanes))
        lower, upper = self.lanes.pop(place)
        if upper - lower > 3 and self.rng.random() < 0.5:
            at = self.rng.randrange(lower + 1, upper)
            if self.rng.random() < 0.5:
                self.lanes.append((lower, at))
                lower = at
            else:
                self.lanes.append((at, upper))
                upper = at
        end = min(upper, lower + self.rng.randint(1, 8))
        if end < upper:
            self.lanes.append((end, upper))
        cut = Chunk(
            number=len(self.order),
            lower=self.end(lower, -1),
            upper=self.end(end, 99),
            target_rows=1,
            lane_end=self.end(upper, 99),
        )
        keys = range(lower + 1, end + 1)
        for key in keys:
            assert self.state[key] == "rest"
            self.state[key] = "in flight"
        self.running.append((cut, keys))
        self.order.append(False)
        return cut

    def commit(self) -> Chunk:
        """Let a chunk commit."""
        cut, keys = self.running.pop(self.rng.randrange(len(self.running)))
        for key in keys:
            self.state[key] = "copied"
        self.order[cut.number] = True
        return cut

    def agrees(self, tracker: WatermarkTracker) -> None:
        """Compare every key with the tracker."""
        for key in range(100):
            if not self.comparable:
                break
            may_drop = self.state[key] == "rest" and key > self.floor[key]
            assert tracker.above_high((key,)) == may_drop, key
            assert tracker.held((key,)) == (self.state[key] == "in flight"), key
        seen = tracker.copied()
        uncopied = [key for key in range(100) if any(map(partial(inside, key), seen.uncopied))]
        assert uncopied == [key for key in range(100) if self.state[key] != "copied"]
        assert len(seen.uncopied) <= len(self.lanes) + len(self.running)
        assert tracker.settled == next(
            (n for n, done in enumerate(self.order) if not done), len(self.order)
        )


def inside(key: int, between: KeyRange) -> bool:
    """Return whether a key is in a range."""
    lower, upper = between.lower, between.upper
    return (lower is None or key > int(lower.literals[0])) and (
        upper is None or key <= int(upper.literals[0])
    )


@pytest.mark.parametrize("comparable", [True, False])
def test_agrees_with_a_model_that_knows_every_key(comparable):
    """Lanes cut, parted and committed at random: every answer follows its definition."""
    seed = seed_of("SPIRIT_PY_TEST_SEED")
    print(f"SPIRIT_PY_TEST_SEED={seed}")  # noqa: T201 - shown when the test fails
    for n in range(60):
        model = Model(random.Random(seed + n), comparable=comparable)
        tracker = WatermarkTracker(ASCENDING, model.rests)
        model.agrees(tracker)
        while model.lanes or model.running:
            if model.lanes and (not model.running or model.rng.random() < 0.5):
                tracker.dispatch(model.cut())
            else:
                tracker.committed(model.commit())
            model.agrees(tracker)
        assert tracker.copied().finished
