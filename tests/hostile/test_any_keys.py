"""Whatever is typed, however fast, the dashboard goes on."""

from pathlib import Path

import pytest
from redis import Redis

from tests.hostile.any_keys import plant, type_any_keys

pytestmark = pytest.mark.slow


def test_any_keys_leave_a_dashboard_that_answers(client: Redis, redis_url: str, tmp_path: Path) -> None:
    plant(client)
    # Those of seeds 1, 2, 3 and 5 do not sort the messages of a queue, for example.
    type_any_keys(redis_url, 8, tmp_path)
