import copy
import hashlib
import hmac
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats
from tests.processes import in_a_fork
from tests.streams import Constant, Recorded

from dimly.curator import randomness
from dimly.curator.randomness import Keystream, RunSecret, Words, is_secret

PIECE = 1 << 16  # bytes
WORDS = 64


def drawn(source: Keystream, count: int = WORDS, kind: type = np.uint64) -> np.ndarray:
    out: np.ndarray = np.zeros(count, kind)
    source.fill(out)
    return out


def blocks(count: int) -> set[bytes]:
    """Return 16-byte blocks of a new stream: two equal ones would come by chance at a rate of 2⁻¹²⁸."""
    stream = drawn(Keystream(), 2 * count).tobytes()
    return {stream[i : i + 16] for i in range(0, len(stream), 16)}


def aes_counter_mode(key: bytes, length: int) -> bytes:
    """Encrypt the counters 0, 1, 2, … one block after the other: what counter mode is."""
    block = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()  # noqa: S305 - of one block
    return b"".join(block.update(i.to_bytes(16, "big")) for i in range(-(-length // 16)))[:length]


@pytest.mark.parametrize("kind", [np.uint16, np.uint32, np.uint64])
def test_the_stream_is_aes_256_in_counter_mode_under_a_key_from_the_operating_system(
    monkeypatch: pytest.MonkeyPatch, kind: type
) -> None:
    key, asked = bytes(range(100, 132)), []

    def known(size: int) -> bytes:
        asked.append(size)
        return key

    monkeypatch.setattr(os, "urandom", known)
    stream = Keystream()
    assert asked == [32]
    # Odd lengths, one that ends within a block, and one above a piece: the stream goes on without a gap.
    parts = [drawn(stream, count, kind) for count in (1, 3, PIECE // 2 + 5, 0, 7)]
    got = b"".join(part.tobytes() for part in parts)
    assert got == aes_counter_mode(key, len(got))
    assert asked == [32]  # once for each stream, and no more


def test_every_stream_asks_for_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = iter([bytes([i]) * 32 for i in range(2)])
    monkeypatch.setattr(os, "urandom", lambda _: next(keys))
    first, second = drawn(Keystream()), drawn(Keystream())
    assert first.tobytes() == aes_counter_mode(bytes(32), first.nbytes)
    assert second.tobytes() == aes_counter_mode(b"\1" * 32, second.nbytes)


@pytest.mark.parametrize("size", [PIECE - 16, PIECE, PIECE + 16, 3 * PIECE + 48])
def test_a_long_fill_repeats_nothing_and_leaves_nothing_out(size: int) -> None:
    stream = drawn(Keystream(), size // 8).tobytes()
    assert len({stream[i : i + 16] for i in range(0, size, 16)}) == size // 16
    assert bytes(16) not in {stream[i : i + 16] for i in range(0, size, 16)}  # the array's own zeros


def test_fills_of_one_stream_are_all_different() -> None:
    stream = Keystream()
    parts = [drawn(stream) for _ in range(20)]
    assert len(np.unique(np.concatenate(parts))) == 20 * WORDS


def test_words_are_uniform_in_every_bit() -> None:
    words = drawn(Keystream(), 1 << 16)
    ones = np.unpackbits(words.view(np.uint8).reshape(-1, 8), axis=1).sum(axis=0, dtype=np.int64)
    limit = stats.norm.isf(1e-6 / 2 / 64) * np.sqrt(len(words)) / 2
    assert np.abs(ones - len(words) / 2).max() <= limit, "fails by chance at a rate of 1e-6"


# Python 3.12 and later warn of forks where there are threads; there are none that would hold a lock here.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_never_continues_its_parents_stream() -> None:
    stream = Keystream()
    before = drawn(stream)
    children = [in_a_fork(lambda: drawn(stream).tobytes()) for _ in range(3)]
    parent = drawn(stream, 4 * WORDS)  # where the children would be, and beyond
    # A grandchild, too.
    children.append(in_a_fork(lambda: in_a_fork(lambda: drawn(stream).tobytes())))
    words = np.concatenate([before, parent, *(np.frombuffer(child, np.uint64) for child in children)])
    assert len(words) == (1 + 4 + 4) * WORDS
    assert len(np.unique(words)) == len(words)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_the_parent_goes_on_where_it_was_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    key = bytes(32)
    monkeypatch.setattr(os, "urandom", lambda _: key)
    stream = Keystream()
    first = drawn(stream).tobytes()
    in_a_fork(lambda: drawn(stream).tobytes())
    assert first + drawn(stream).tobytes() == aes_counter_mode(key, 2 * len(first))


def test_threads_that_share_a_stream_get_different_words() -> None:
    stream = Keystream()
    results: list[np.ndarray] = []
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        results.extend(drawn(stream, 1000) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    words = np.concatenate(results)
    assert len(words) == 160_000
    assert len(np.unique(words)) == len(words)  # 64-bit words repeat by chance at a rate below 1e-9


def test_new_processes_get_streams_of_their_own() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.map(blocks, [WORDS] * 4, chunksize=1)
    found.append(blocks(WORDS))
    assert len(set().union(*found)) == 5 * WORDS


@pytest.mark.parametrize("replay", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_stream_cannot_be_pickled_or_copied(replay: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="cannot be pickled or copied"):
        replay(Keystream())


class Lookalike(Keystream):
    """Might do anything."""


def test_only_a_keystream_itself_is_secret() -> None:
    assert is_secret(Keystream())
    for source in (Lookalike(), Recorded(0), Constant(0, 0)):
        assert not is_secret(source)


def test_the_key_is_held_by_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    key = b"the key that nobody should find."
    monkeypatch.setattr(os, "urandom", lambda _: key)
    stream = Keystream()
    held = [getattr(stream, name) for name in Keystream.__slots__]
    assert key not in held
    assert key.decode() not in repr(stream) + repr(held)


def test_nothing_is_written_beyond_the_array() -> None:
    memory = np.zeros(100, np.uint16)
    middle: Words = memory[40:60]
    Keystream().fill(middle)
    assert not memory[:40].any()
    assert not memory[60:].any()
    assert middle.any()


def test_only_flat_arrays_are_filled() -> None:
    with pytest.raises(ValueError, match="flat arrays only"):
        Keystream().fill(np.zeros((2, 3), np.uint64))


def test_an_instance_cannot_be_given_another_source() -> None:
    with pytest.raises(AttributeError):
        Keystream().fill = print  # type: ignore[method-assign, assignment]


def test_a_child_forked_while_the_stream_is_in_use_does_not_wait_for_ever() -> None:
    stream = Keystream()
    with stream._lock:  # as another thread would hold it at that moment
        child = os.fork()
        if child == 0:
            stream.fill(np.empty(4, np.uint64))
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("lock", ["of the stream", "of the process"])
def test_whoever_interrupts_a_stream_may_draw(lock: str) -> None:
    """A signal handler runs in the thread that it interrupts: what this thread has locked must let it through."""
    stream = Keystream()
    found: list[bytes] = []

    def interrupted() -> None:
        with stream._lock if lock == "of the stream" else randomness._restarting:
            found.extend(drawn(source).tobytes() for source in (stream, Keystream()))

    # In a thread that may be left behind, so that waiting for ever is a failure and not the end of all tests.
    thread = threading.Thread(target=interrupted, daemon=True)
    thread.start()
    thread.join(60)
    assert len(set(found)) == 2


def test_a_new_key_that_is_interrupted_comes_before_any_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a forked process, a handler that draws while the stream is keyed anew must not get its parent's words."""
    key, others = bytes(32), iter([b"\1" * 32, b"\2" * 32])
    monkeypatch.setattr(os, "urandom", lambda _: key)
    stream = Keystream()
    monkeypatch.setattr(randomness, "_generation", randomness._generation + 1)  # as after a fork
    within: list[bytes] = []

    def interrupted(_: int) -> bytes:
        mine = next(others)
        if not within:
            within.append(b"")  # once
            within[0] = drawn(stream).tobytes()
        return mine

    monkeypatch.setattr(os, "urandom", interrupted)
    after = drawn(stream).tobytes()
    assert within[0] == aes_counter_mode(b"\2" * 32, len(within[0]))
    assert after == aes_counter_mode(b"\1" * 32, len(after))


def test_a_key_of_a_run_is_a_hash_under_its_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = bytes(range(50, 82))
    monkeypatch.setattr(os, "urandom", lambda size: secret[:size])
    key = hmac.new(secret, b"dimly/noise/1\0rows", hashlib.sha256).digest()
    stream = drawn(RunSecret().keystream(b"rows"))
    assert stream.tobytes() == aes_counter_mode(key, stream.nbytes)


def test_the_same_rows_of_a_run_have_one_stream_and_no_others() -> None:
    run, other = RunSecret(), RunSecret()
    carried = pickle.loads(pickle.dumps(run))  # noqa: S301 - made here
    first = drawn(run.keystream(b"rows"))
    np.testing.assert_array_equal(first, drawn(run.keystream(b"rows")))
    np.testing.assert_array_equal(first, drawn(carried.keystream(b"rows")))
    streams = [first, drawn(run.keystream(b"other")), drawn(run.keystream(b"")), drawn(other.keystream(b"rows"))]
    assert len(np.unique(np.concatenate(streams))) == 4 * WORDS
    assert is_secret(run.keystream(b"rows"))


def test_a_secret_of_a_run_is_shown_by_nothing() -> None:
    run = RunSecret()
    for shown in (repr(run), str(run), f"{run.keystream}"):
        assert "RunSecret" in shown
        assert run._secret.hex() not in shown
        assert repr(run._secret) not in shown
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(run.keystream(b"rows"))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_never_continues_a_stream_of_a_run() -> None:
    stream = RunSecret().keystream(b"rows")
    child = np.frombuffer(in_a_fork(lambda: drawn(stream).tobytes()), np.uint64)
    assert len(np.unique(np.concatenate([child, drawn(stream)]))) == 2 * WORDS
