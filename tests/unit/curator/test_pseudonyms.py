import copy
import hashlib
import hmac
import pickle
from pathlib import Path

import pytest

from dimly.curator.pseudonyms import Pseudonyms
from dimly.errors import ParameterError

KEY = bytes(range(32))


def key_file(folder: Path, key: bytes = KEY, mode: int = 0o600) -> Path:
    path = folder / "key"
    path.write_bytes(key)
    path.chmod(mode)
    return path


def test_pseudonyms_are_keyed_hashes(tmp_path: Path) -> None:
    made = Pseudonyms.from_file(key_file(tmp_path)).of(["42", "Zoë", "042"])
    assert made == [hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()[:32] for text in ("42", "Zoë", "042")]
    assert made != Pseudonyms(KEY[::-1]).of(["42", "Zoë", "042"])
    assert len(set(made)) == 3


def test_every_byte_of_the_file_counts(tmp_path: Path) -> None:
    with_line_end = Pseudonyms.from_file(key_file(tmp_path, KEY + b"\n"))
    assert with_line_end.of(["1"]) == Pseudonyms(KEY + b"\n").of(["1"]) != Pseudonyms(KEY).of(["1"])


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640])
def test_a_key_may_belong_to_a_group(tmp_path: Path, mode: int) -> None:
    assert Pseudonyms.from_file(key_file(tmp_path, mode=mode)).of([]) == []


@pytest.mark.parametrize("mode", [0o644, 0o602])
def test_a_key_that_is_open_to_all(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ParameterError, match=r"key must be closed to others: .* chmod o-rwx"):
        Pseudonyms.from_file(key_file(tmp_path, mode=mode))


@pytest.mark.parametrize(
    ("key", "message"), [(KEY[:31], "at least 32 random bytes, got 31"), (bytes(65537), "at most 65536 bytes")]
)
def test_keys_of_a_wrong_length(tmp_path: Path, key: bytes, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Pseudonyms.from_file(key_file(tmp_path, key))


def test_a_key_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"file that can be read, got .*missing") as caught:
        Pseudonyms.from_file(tmp_path / "missing")
    assert caught.value.__context__ is None


def test_the_key_stays_inside() -> None:
    pseudonyms = Pseudonyms(KEY)
    assert repr(pseudonyms) == "<Pseudonyms>"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(pseudonyms)
    with pytest.raises(TypeError, match="cannot be pickled"):
        copy.copy(pseudonyms)
