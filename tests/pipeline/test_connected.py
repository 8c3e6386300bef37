"""The address of a Spark Connect server, as far as people may see it."""

from rsmq_tui.pipeline.spark import without_secrets


def test_what_follows_a_servers_address_is_never_shown() -> None:
    assert without_secrets("sc://spark1:15002/;token=hunter2;use_ssl=true") == "sc://spark1:15002"
    assert without_secrets("sc://[::1]") == "sc://[::1]"
