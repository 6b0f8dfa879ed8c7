"""Channels and parameters, with slow, failing and silent partners."""

import sys
import threading
import time

import pytest

from emphatic.runtime.channels import Channel, Closed, Parameters, Watch, within


def in_thread(work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_items_come_in_order_through_a_full_channel():
    channel = Channel("numbers", capacity=2)
    producer = in_thread(lambda: [channel.put(i) for i in range(50)])
    assert [channel.get(5.0) for _ in range(50)] == list(range(50))
    producer.join(5.0)
    assert not producer.is_alive()


def test_a_slow_producer_is_waited_for_and_a_silent_one_is_not():
    channel = Channel("numbers", capacity=1)
    in_thread(lambda: (time.sleep(0.1), channel.put(1)))
    assert channel.get(5.0) == 1
    start = time.monotonic()
    with pytest.raises(TimeoutError, match=r"numbers: nothing came within 0\.05 s"):
        channel.get(0.05)
    assert time.monotonic() - start < 2.0


def test_closing_wakes_both_sides_and_loses_nothing():
    channel = Channel("numbers", capacity=1)
    channel.put(1)
    ends = []

    def producer():
        try:
            channel.put(2)
        except Closed as closed:
            ends.append(str(closed))

    waiting = in_thread(producer)
    time.sleep(0.05)
    assert (len(channel), ends, waiting.is_alive()) == (1, [], True)
    channel.close("the disk is full")
    channel.close("another reason")
    waiting.join(5.0)
    assert ends == ["numbers: the disk is full"]
    assert channel.get(1.0) == 1
    with pytest.raises(Closed, match="the disk is full"):
        channel.get(1.0)


def test_the_first_to_fail_ends_a_waiting_consumer():
    channel = Channel("numbers", capacity=1)
    in_thread(lambda: (time.sleep(0.05), channel.close("ValueError: no")))
    with pytest.raises(Closed, match="numbers: ValueError: no"):
        channel.get(5.0)


def test_parameters_are_had_by_exact_version():
    parameters = Parameters(kept=2)
    got = []
    reader = in_thread(lambda: got.append(parameters.get(1)))
    parameters.publish(0, "zero")
    time.sleep(0.05)
    assert got == []
    parameters.publish(1, "one")
    reader.join(5.0)
    assert got == ["one"]
    parameters.publish(1, "another one")
    assert parameters.get(1) == "one"


def test_old_versions_are_forgotten_and_closing_ends_the_wait():
    parameters = Parameters(kept=2)
    for version in range(3):
        parameters.publish(version, version)
    ends = []

    def reader():
        try:
            parameters.get(0)
        except Closed as closed:
            ends.append(str(closed))

    waiting = in_thread(reader)
    time.sleep(0.05)
    assert ends == []
    parameters.close("the run ends")
    waiting.join(5.0)
    assert ends == ["parameters: the run ends"]


def test_watch_tells_what_takes_long():
    now = [0.0]
    watch = Watch(lambda: now[0])
    assert watch.overdue(1.0) is None
    with watch("a step"):
        now[0] = 1.0
        assert watch.overdue(1.0) is None
        now[0] = 1.5
        assert watch.overdue(1.0) == "a step took over 1 s"
    assert watch.overdue(1.0) is None


def test_the_inner_of_two_waits_counts_and_the_outer_begins_anew():
    now = [0.0]
    watch = Watch(lambda: now[0])
    with watch("its device", times=3):
        now[0] = 2.5
        with watch("a step"):
            now[0] = 3.4
            assert watch.overdue(1.0) is None
            now[0] = 3.6
            assert watch.overdue(1.0) == "a step took over 1 s"
        assert watch.overdue(1.0) is None
        now[0] = 6.7
        assert watch.overdue(1.0) == "its device took over 3 s"
    assert watch.overdue(1.0) is None


def test_work_is_waited_for_so_long_and_no_longer():
    release = threading.Event()
    assert within(5.0, lambda: 3) == 3
    with pytest.raises(SystemExit, match="gone"):
        within(5.0, lambda: sys.exit("gone"))
    with pytest.raises(TimeoutError, match=r"took over 0\.05 s"):
        within(0.05, lambda: release.wait(30.0))
    release.set()
