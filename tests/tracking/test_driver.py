"""Whether the process that a run or a results folder names still lives."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from raybench.tracking.driver import Driver, this_driver

TELL = (
    "import sys; from raybench.tracking.driver import this_driver\nprint(this_driver().to_json(), flush=True); input()"
)


@pytest.fixture
def another():
    """Another driver on this host: what it says of itself, and its process."""
    process = subprocess.Popen([sys.executable, "-c", TELL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield Driver.from_json(process.stdout.readline()), process
    process.kill()
    process.communicate()


def test_a_driver_on_this_host_lives_until_it_is_killed(another):
    driver, process = another
    assert (driver.pid, driver.host) == (process.pid, this_driver().host)
    assert driver.lives is True
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert driver.lives is False, "its parent has not heard of it yet"
    process.wait()
    assert driver.lives is False


def test_a_number_that_was_given_out_again_is_another_process():
    assert this_driver().lives is True
    assert replace(this_driver(), started="1").lives is False


@pytest.mark.parametrize("other", [{"host": "elsewhere"}, {"boot": "another"}, {"boot": ""}, {"space": "pid:[1]"}])
def test_of_what_cannot_be_seen_from_here_nothing_is_said(other):
    assert replace(this_driver(), pid=2**22 + 1, **other).lives is None


@pytest.mark.parametrize("text", [None, "", "[", "[]", "{}", '{"host": "a"}', '{"host": 1, "pid": "x"}'])
def test_what_names_no_driver_is_none(text):
    assert Driver.from_json(text) is None


def test_a_driver_is_the_same_from_its_json():
    assert Driver.from_json(this_driver().to_json()) == this_driver()
