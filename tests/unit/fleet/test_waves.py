"""Which server begins next, and how long all of them take."""

from __future__ import annotations

import pytest

from spirit_py.command_config import BatchConfig, FleetConfig, FleetServer
from spirit_py.config import ConnectionOptions, MigrationConfig
from spirit_py.fleet.waves import next_server, seconds_of, waves_of


def servers(*regions):
    """Return servers ``1``, ``2`` and so on, each with a region, or with none."""
    each = MigrationConfig(connection=ConnectionOptions(), database="")
    return tuple(
        FleetServer(
            name=str(number),
            batch=BatchConfig(each=each),
            labels={"region": region} if region else {},
        )
        for number, region in enumerate(regions, 1)
    )


def config(*regions, **more):
    """Return the configuration of such a fleet."""
    return FleetConfig(servers=servers(*regions), asked="", **more)


def names(waves):
    """Return name and servers of each wave."""
    return [(one.name, "".join(each.name for each in one.servers)) for one in waves]


def test_canaries_come_first_and_then_the_values_of_the_label():
    """In the order of the list; those without the label come as a wave of their own."""
    fleet = ("us", "eu", "us", "", "eu")
    assert names(waves_of(config(*fleet))) == [("all", "12345")]
    assert names(waves_of(config(*fleet, canary=2))) == [("canary", "12"), ("all", "345")]
    assert names(waves_of(config(*fleet, canary=1, waves_by="region"))) == [
        ("canary", "1"),
        ("eu", "25"),
        ("us", "3"),
        ("without the label", "4"),
    ]
    assert names(waves_of(config("us", canary=5))) == [("canary", "1")]


def test_brakes_hold_servers_back_and_let_later_ones_pass():
    """A label that is full holds back its own servers only."""
    one, two, three, four = servers("us", "us", "eu", "")

    def begins(waiting, under_way, at_once=3, most=1):
        found = next_server(waiting, under_way, at_once=at_once, at_once_of=[("region", most)])
        return found and found.name

    assert begins([one, two], []) == "1"
    assert begins([two, three], [one]) == "3"
    assert begins([two], [one]) is None
    assert begins([two], [one], most=2) == "2"
    assert begins([two, four], [one, three]) == "4"
    assert begins([four], [one, three], at_once=2) is None
    assert begins([], []) is None


@pytest.mark.parametrize(
    ("more", "seconds"),
    [
        ({"at_once": 1}, 10.0),
        ({"at_once": 4}, 4.0),
        ({"at_once": 2}, 6.0),
        ({"at_once": 4, "canary": 1}, 5.0),
        ({"at_once": 4, "at_once_of": (("region", 1),)}, 6.0),
        ({"at_once": 4, "waves_by": "region"}, 7.0),
    ],
)
def test_the_time_of_all_is_that_of_the_schedule(more, seconds):
    """Servers of 1, 2, 3 and 4 seconds, of which the first and the third are of a region."""
    known = {"1": 1.0, "2": 2.0, "3": 3.0, "4": 4.0}
    assert seconds_of(config("us", "eu", "us", "eu", **more), known) == seconds
