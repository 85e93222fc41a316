"""The model of a copy's rows a second, its fit to measured points, and the pinning of a server."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from benchmarks.scale import ALLOWED, expectations, largest, pin, settings
from benchmarks.scale_model import Costs, Setting, best, errors, expect, fit

KNOWN = Costs(row=7e-6, transaction=1e-3, commit=4e-3, contention=0.1)
MEASURED = [(each, expect(KNOWN, each)) for each in settings(2, 260.0)]


def worst(costs, measured):
    """Return the largest error of a rate or of CPU."""
    return max(abs(each) for pair in errors(costs, measured) for each in pair)


def test_one_session_takes_the_sum_of_its_parts():
    """With cores to spare, nothing is waited for but the parts themselves."""
    setting = Setting(sessions=1, cores=64, rows=1000, round_trip=0.01, commit=0.02)
    seconds = 1000 * 7e-6 + 1e-3 + 4e-3 + 0.01 + 0.02
    assert expect(KNOWN, setting).rate == pytest.approx(1000 / seconds, rel=1e-3)


def test_many_sessions_use_up_the_cores_each_of_which_makes_the_others_slower():
    """Four busy cores with a tenth each: 1.3 times the CPU of one."""
    many = expect(replace(KNOWN, transaction=0.0), Setting(sessions=256, cores=4, rows=1000))
    assert many.cpu == pytest.approx(7e-6 * 1.3, rel=1e-3)
    assert many.rate == pytest.approx(4 / many.cpu, rel=1e-3)


def test_a_fit_finds_the_server_again_and_cores_that_it_has_not_seen():
    """As far as a server is what the model assumes."""
    found = fit(MEASURED)
    assert worst(found, MEASURED) <= 0.02
    for cores in (4, 16):
        (_, guess), (_, true) = best(found, cores, 8000), best(KNOWN, cores, 8000)
        assert guess.rate == pytest.approx(true.rate, rel=0.1)


def test_a_server_of_another_kind_leaves_errors_that_show():
    """Here 8 sessions are a quarter as fast as expected, which no parameter explains."""
    other = [
        (setting, replace(seen, rate=seen.rate / (4 if setting.sessions == 8 else 1)))
        for setting, seen in MEASURED
    ]
    assert worst(fit(other), other) > ALLOWED


def test_a_model_that_is_too_far_off_says_that_its_expectations_do_not_count():
    """And one that is near does not."""
    far = [(setting, replace(seen, cpu=2 * seen.cpu)) for setting, seen in MEASURED]
    rates, cpu = largest(errors(KNOWN, far))
    assert not rates.missed
    assert cpu.missed
    assert cpu.ours == pytest.approx(50)
    assert "does not count" in cpu.against


def test_the_smallest_number_of_sessions_with_nearly_the_best_rate_is_expected():
    """On many cores as many or more, as each waits for its commits."""
    assert best(replace(KNOWN, commit=0.0), 1, 1000)[0] <= 2
    assert 16 < best(replace(KNOWN, contention=0.0), 16, 1000)[0] <= 48


def test_expectations_name_their_assumptions_and_obey_the_driver():
    """A driver that takes 2 us for each row passes half a million a second."""
    said = expectations(replace(KNOWN, contention=0.5), 260.0, 2e-6, 2e-5)
    assert "Assumed" in said["expected"]
    assert said["expected, the feed alone"].startswith("50,000 changes/s")
    slow, quick = said["expected, 16 cores"], said["expected, 32 cores without contention"]
    assert float(slow.split()[0].replace(",", "")) < 500_000
    assert quick.startswith("500,000 rows/s")
    assert quick.endswith("1.00 cores of the driver for the copy, 0 changes/s beside it")


def test_all_threads_of_a_process_are_pinned_and_those_that_it_starts_later():
    """A thread that is started after the pinning inherits it."""
    core = {min(os.sched_getaffinity(0))}
    program = (
        "import threading, os\n"
        "e = threading.Event(); threading.Thread(target=e.wait).start(); print(flush=True)\n"
        "input(); threading.Thread(target=e.wait).start()\n"
        "print([sorted(os.sched_getaffinity(int(t))) for t in os.listdir('/proc/self/task')])\n"
        "e.set()"
    )
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        assert child.stdout
        child.stdout.readline()
        pin(child.pid, core)
        said, _ = child.communicate("\n")
    assert said.strip() == str([sorted(core)] * 3)
