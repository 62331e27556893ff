"""What is kept in memory: the latest used, never more than allowed."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from pc_store.search.kept import Kept


def test_the_longest_unused_goes_first():
    kept = Kept(10)
    for name in "abc":
        kept.get(name, lambda name=name: name * 3, len)
    assert kept.get("a", lambda: "again", len) == "aaa"
    kept.get("d", lambda: "ddd", len)
    assert kept.bytes == 9
    assert kept.get("b", lambda: "new", len) == "new"
    assert kept.get("a", lambda: "again", len) == "aaa"


def test_what_is_too_large_is_answered_and_not_kept():
    kept = Kept(3)
    kept.put("a", "a", 1)
    assert kept.get("big", lambda: "x" * 4, len) == "xxxx"
    assert kept.get("big", lambda: "y", len) == "y"
    assert kept.get("a", lambda: "again", len) == "a"


def test_values_are_found_and_forgotten_by_condition():
    kept = Kept(100)
    for number in range(4):
        kept.put(("p", str(number)), number, 10)
    assert kept.find(("p", name) for name in "139") == {("p", "1"): 1, ("p", "3"): 3}
    kept.forget(lambda key: key == ("p", "1"))
    assert kept.find([("p", "1"), ("p", "3")]) == {("p", "3"): 3}
    kept.allow(15)
    assert kept.bytes == 10
    kept.clear()
    assert kept.bytes == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=40), st.integers(0, 20))
def test_the_bytes_are_those_of_what_is_kept(puts, most):
    kept = Kept(most)
    for key, size in puts:
        assert kept.get(key, lambda key=key: key, lambda _, size=size: size) == key
        assert 0 <= kept.bytes <= most
        assert kept.bytes == sum(size for _, size in kept._values.values())


def test_threads_may_use_it_together():
    kept = Kept(50)

    def work(seed: int) -> None:
        for number in range(2_000):
            key = (number * seed) % 17
            assert kept.get(key, lambda key=key: key, lambda _: 7) == key

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (3, 5, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kept.bytes == sum(size for _, size in kept._values.values()) <= 50
