"""Whatever is typed, however fast, the dashboard goes on."""

from pathlib import Path

import pytest
from redis import Redis

from tests.hostile.any_keys import plant, type_any_keys

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [5, 8])
def test_any_keys_leave_a_dashboard_that_answers(client: Redis, redis_url: str, tmp_path: Path, seed: int) -> None:
    plant(client)
    type_any_keys(redis_url, seed, tmp_path)
