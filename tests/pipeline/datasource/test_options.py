"""What may be said by option: mistakes are told before anything is done, in one sentence."""

import pickle
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from rsmq_tui.pipeline.datasource import RsmqDataSource
from rsmq_tui.pipeline.datasource.options import MESSAGES, ONCE, SourceError, read_options


def test_all_of_them() -> None:
    options = read_options(
        {
            "url": "redis://h/3",
            "NS": "{shop}",
            "Table": "MESSAGES",
            "queue": "a\\\\b\\xff",
            "partitions": "3",
            "chunk": "9",
            "bodies": "Yes",
            "every_s": "2.5",
            "ids": "once",
            "run": "r",
            "delay_s": "0",
            "fence_s": "60",
        }
    )
    assert options.server.address().label == "redis://h:6379/3"
    assert (options.ns, options.table, options.queue, options.partitions) == ("{shop}", MESSAGES, "a\\b\udcff", 3)
    assert (options.chunk, options.bodies, options.every_s, options.ids) == (9, True, 2.5, ONCE)
    assert (options.run, options.delay_s, options.fence_s) == ("r", 0, 60)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tabel": "queues"}, "unknown option tabel: did you mean table?"),
        ({"zzzz": "1"}, "unknown option zzzz: known options: url, profile"),
        ({"table": "topics"}, "option table is one of queues, messages, not topics"),
        ({"partitions": "0"}, "option partitions is a whole number from 1 to 4,096, not 0"),
        ({"chunk": "many"}, "option chunk is a whole number"),
        ({"every_s": "0"}, "option every_s is a number of seconds"),
        ({"bodies": "maybe"}, "option bodies is true or false, not maybe"),
        ({"queue": ""}, "option queue is empty"),
        ({"url": "http://x"}, "option url: not a Redis URL: it must start with redis://"),
        ({"url": "redis://:secret@h:x"}, "option url: not a Redis URL"),
        ({"url": "redis://h", "profile": "p"}, "options url and profile both name a server"),
        ({"delay_s": "1" * 40}, "option delay_s is a whole number"),
    ],
)
def test_mistakes(given: dict[str, str], words: str) -> None:
    with pytest.raises(SourceError) as output:
        read_options(given)
    assert words in str(output.value)
    assert "secret" not in str(output.value)
    assert "\n" not in str(output.value)


def test_the_surroundings_name_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://somewhere/2")
    server = read_options({}).server
    monkeypatch.delenv("REDIS_URL")

    # It was settled when it was read, and travels.
    assert pickle.loads(pickle.dumps(server)).address().label == "redis://somewhere:6379/2"
    assert read_options({}).server.address().label == "redis://localhost:6379/0"


def test_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[profiles.prod]\nurl = "redis://db1:6380/1"\n')
    path.chmod(0o600)

    assert read_options({"profile": "prod", "config": str(path)}).server.address().label == "redis://db1:6380/1"
    monkeypatch.setenv("RSMQ_TUI_CONFIG", str(path))
    assert read_options({"profile": "prod"}).server.address().label == "redis://db1:6380/1"
    with pytest.raises(SourceError, match="option profile: no profile prad; the configuration file has prod"):
        read_options({"profile": "prad"})
    with pytest.raises(SourceError, match="option profile: "):
        read_options({"profile": "prod", "config": str(tmp_path / "none.toml")})
    with pytest.raises(SourceError, match="option config: names a home directory that is not known here: ~nosuchuser"):
        read_options({"profile": "prod", "config": "~nosuchuser/config.toml"})


@pytest.mark.parametrize(
    ("ddl", "table", "words"),
    [
        ("id string, color string", "messages", "the table messages has no column color: it has at_ms, "),
        ("rc int", "messages", "int is not what the table messages has: rc bigint"),
        ("id string", "queues", "the table queues has no column id"),
    ],
)
def test_columns_that_are_not_there(ddl: str, table: str, words: str) -> None:
    types = {"string": "string", "int": "integer"}
    schema = StructType()
    for name, kind in (column.split() for column in ddl.split(", ")):
        schema.add(name, types[kind])
    with pytest.raises(SourceError) as output:
        RsmqDataSource({"table": table}).reader(schema)
    assert words in str(output.value)


def test_a_stream_is_one_of_samples() -> None:
    source = RsmqDataSource({"table": "messages"})
    with pytest.raises(SourceError, match="leave option table out"):
        source.simpleStreamReader(source.schema())
    with pytest.raises(SourceError, match="foreachBatch"):
        source.streamWriter(source.schema(), overwrite=False)


def test_columns_by_default() -> None:
    def names(**options: str) -> list[str]:
        return RsmqDataSource(options).schema().names

    assert {"size", "body"} & set(names(table="messages")) == set()
    assert set(names(table="messages", bodies="true")) - set(names(table="messages")) == {"size", "body"}
    assert "depth" in names() == names(table="queues")
