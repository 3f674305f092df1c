"""A certificate says what was found, and reads back as it was written."""

import json
from pathlib import Path
from typing import Any

import pytest

from dimly.audit.certificate import CAN, CANNOT, Certificate, certificate_path
from dimly.audit.plan_audit import Audit, Check
from dimly.errors import ReleaseError

FOUND = Audit(1.0, 1e-6, 0.999999, (Check("likelihood", "", 0.937, 1000, delta_lower_bound=7.39e-7),))
MADE = Certificate.of(FOUND, release="ab" * 32, plan_digest="cd" * 32)


def test_it_reads_back(tmp_path: Path) -> None:
    path = certificate_path(tmp_path / "release")
    path.write_text(MADE.to_json(), encoding="utf-8")
    assert Certificate.read(path) == MADE
    assert path.parent == tmp_path
    assert json.loads(MADE.to_json())["cannot_prove"] == list(CANNOT)


def test_one_from_before_delta_was_bounded(tmp_path: Path) -> None:
    fields = json.loads(MADE.to_json())
    del fields["delta_lower_bound"]
    path = tmp_path / "release.audit.json"
    path.write_text(json.dumps(fields))
    assert "Delta" not in Certificate.read(path).lines[0]


def test_its_words() -> None:
    assert "at least 0.93 was seen" in MADE.lines[0]
    assert "99.9999 %" in MADE.lines[0]
    assert "Delta 1e-06 was claimed at that epsilon, and at least 7.3e-07 was seen." in MADE.lines[0]
    assert MADE.lines[1:] == (*CAN, *CANNOT)


@pytest.mark.parametrize(
    "change",
    [
        {"release": 3},
        {"trials": None, "more": 1},
        {"confidence": "x"},
        {"claimed_epsilon": -1},
        {"delta_lower_bound": 1e-5},
    ],
)
def test_what_is_none_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "release.audit.json"
    path.write_text(json.dumps(json.loads(MADE.to_json()) | change))
    with pytest.raises(ReleaseError, match="must be a certificate"):
        Certificate.read(path)
    path.write_text("{")
    with pytest.raises(ReleaseError, match="must be a certificate"):
        Certificate.read(path)
