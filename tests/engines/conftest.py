"""Every test of the contract is for every engine."""

import pytest
from tests.engines.engine import ENGINES, Engine


@pytest.fixture(params=list(ENGINES.values()), ids=list(ENGINES))
def engine(request: pytest.FixtureRequest) -> Engine:
    """Return an engine."""
    found: Engine = request.param
    return found
