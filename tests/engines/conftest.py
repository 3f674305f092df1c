"""Every test of the contract is for every engine."""

import pytest
from tests.engines.engine import ENGINES, Engine


@pytest.fixture(params=ENGINES.values(), ids=ENGINES.keys())
def engine(request: pytest.FixtureRequest) -> Engine:
    """Return an engine."""
    found: Engine = request.param
    return found
