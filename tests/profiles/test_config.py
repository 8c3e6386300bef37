"""The configuration file: what it may say, and what is told of everything else, with its line."""

import os
from pathlib import Path
from typing import Any

import pytest

from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.monitor.tracking.verdicts import Thresholds
from rsmq_tui.profiles.config import Config, _AddressKeys, example, read_config
from rsmq_tui.profiles.values import ConfigError, Mistakes, Value
from rsmq_tui.protocol import Node, Tls


def read(folder: Path, text: str, mode: int = 0o600) -> Config:
    path = folder / "config.toml"
    path.write_text(text)
    path.chmod(mode)
    return read_config(path)


def refusal(folder: Path, text: str, mode: int = 0o600) -> str:
    """What is told of a file, after its path."""
    with pytest.raises(ConfigError) as refused:
        read(folder, text, mode)
    sentence = str(refused.value)
    assert "hunter2" not in sentence
    assert "\n" not in sentence
    return sentence.removeprefix(f"{folder / 'config.toml'}:")


def test_an_empty_file_names_no_profile(tmp_path: Path) -> None:
    config = read(tmp_path, "# nothing\n")

    assert (config.profiles, config.default, config.watched.thresholds) == ({}, None, Thresholds())


def test_the_example_can_be_read_and_uncommented_keys_are_all_there_are(tmp_path: Path) -> None:
    config = read(tmp_path, example(), mode=0o644)

    assert config.default == "local"
    assert (config.alerts.problems, len(config.alerts.rules)) == ((), 1)
    assert list(config.profiles) == [
        "local",
        "socket",
        "with-lists",
        "staging",
        "production",
        "watched-by-sentinels",
        "cluster",
    ]
    assert config.profiles["local"] == config.profiles["local"].__class__("local", config.profiles["local"].address)
    production = config.profiles["production"]
    assert (production.read_only, production.colour, production.thresholds.stalled_ms) == (True, "#ff5f5f", 30_000)
    assert config.profiles["local"].thresholds == Thresholds()
    assert config.profiles["cluster"].namespaces == ("{rsmq}",)
    assert all(len(line) <= 100 for line in example().splitlines())


LABELS: dict[str, tuple[str, str]] = {
    "nothing": ("", "redis://localhost:6379/0"),
    "a url": ('url = "rediss://h:1/2"', "rediss://h:1/2"),
    "a host": ('host = "h"', "redis://h:6379/0"),
    "a port and a database": ("port = 7000\ndb = 3", "redis://localhost:7000/3"),
    "an address": ('host = "::1"\ntls = true', "rediss://[::1]:6379/0"),
    "an address in brackets": ('host = "[::1]"', "redis://[::1]:6379/0"),
    "a socket": ('socket = "/run/r.sock"\ndb = 1', "unix:///run/r.sock db 1"),
    "sentinels": ('sentinels = ["a", "b:1"]\nsentinel_service = "m"\ndb = 2', "sentinel://a:26379/m/2"),
    "a cluster by one node": ('host = "a"\ncluster = true', "cluster://a:6379"),
    "a cluster by a url": ('url = "rediss://a:1"\ncluster = true', "cluster://a:1"),
    "a cluster by some nodes": ('cluster = ["a", "b:1"]', "cluster://a:6379"),
    "no cluster": ("cluster = false", "redis://localhost:6379/0"),
}


@pytest.mark.parametrize("name", LABELS)
def test_where_the_server_is(tmp_path: Path, name: str) -> None:
    text, label = LABELS[name]

    assert read(tmp_path, f"[profiles.a]\n{text}").profiles["a"].address.label == label


def test_all_that_an_address_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/bob")
    address = (
        read(
            tmp_path,
            """
            [profiles.a]
            user = "bob"
            password = "hunter2"
            tls = true
            tls_ca = "ca.pem"
            tls_cert = "~/us.pem"
            tls_key = "/us.key"
            tls_verify = "chain"
            sentinels = ["one", "[::1]:5"]
            sentinel_service = "main"
            sentinel_user = "watch"
            sentinel_password = "hunter3"
            """,
        )
        .profiles["a"]
        .address
    )
    tls = Tls(tmp_path / "ca.pem", Path("/home/bob/us.pem"), Path("/us.key"), "chain")

    assert (address.url, address.user, address.tls) == ("rediss://localhost:6379/0", "bob", tls)
    assert address.password is not None
    assert address.password() == "hunter2"
    sentinels = address.sentinels
    assert sentinels is not None
    assert sentinels.nodes == (Node("one", 26379), Node("::1", 5))
    assert (sentinels.service, sentinels.user, sentinels.tls) == ("main", "watch", tls)
    assert sentinels.password is not None
    assert sentinels.password() == "hunter3"


def test_sentinels_may_speak_otherwise_than_the_server(tmp_path: Path) -> None:
    text = '[profiles.a]\nsentinels = ["one"]\nsentinel_service = "m"\n'
    plain = read(tmp_path, f"{text}tls = true\nsentinel_tls = false").profiles["a"].address
    secure = read(tmp_path, f'{text}sentinel_tls = true\ntls_ca = "/ca"').profiles["a"].address

    assert plain.sentinels is not None
    assert (plain.is_secure, plain.sentinels.tls) == (True, None)
    assert secure.sentinels is not None
    assert (secure.is_secure, secure.tls, secure.sentinels.tls) == (False, None, Tls(Path("/ca")))


def test_color_is_another_way_to_write_colour(tmp_path: Path) -> None:
    config = read(tmp_path, "[defaults]\ncolor = 'red'\n[profiles.a]\nhost = 'h'\n[profiles.b]\ncolour = '#123456'\n")

    assert [config.profiles[name].colour for name in "ab"] == ["#ff5f5f", "#123456"]


def test_how_a_server_is_watched(tmp_path: Path) -> None:
    profile = read(
        tmp_path,
        """
        [profiles.a]
        namespaces = ["jobs", "rsmq", "jobs"]
        read_only = true
        colour = "Red"
        interval = "500ms"
        [profiles.a.thresholds]
        stalled = "90s"
        growing = "1h30m"
        growing_messages = 5
        growing_share = 0
        aged = "2d"
        poison_rc = 9
        depth_limit = 5000
        """,
    ).profiles["a"]

    assert (profile.namespaces, profile.ns, profile.read_only) == (("jobs", "rsmq"), "jobs", True)
    assert (profile.colour, profile.interval_s) == ("#ff5f5f", 0.5)
    assert profile.thresholds == Thresholds(90_000, 5_400_000, 5, 0.0, 172_800_000, 9, depth_limit=5_000)


def test_defaults_hold_where_a_profile_says_nothing_else(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """
        [defaults]
        user = "bob"
        password = "hunter2"
        tls_ca = "/ca"
        namespace = "jobs"
        read_only = true
        interval = 5
        thresholds = { aged = "1m", poison_rc = 3 }
        [profiles.plain]
        [profiles.secure]
        tls = true
        password_env = "MINE"
        namespaces = ["a", "b"]
        read_only = false
        thresholds = { aged = "2m" }
        [profiles.url]
        url = "redis://eve:x@h"
        """,
    )
    plain, secure, url = (config.profiles[name] for name in ("plain", "secure", "url"))

    assert (plain.address.user, plain.address.tls) == ("bob", None)
    assert plain.address.password is not None
    assert plain.address.password() == "hunter2"
    assert (plain.namespaces, plain.read_only, plain.interval_s) == (("jobs",), True, 5.0)
    assert secure.address.tls == Tls(Path("/ca"))
    assert secure.address.password is not None
    with pytest.raises(Exception, match="MINE is not set"):
        secure.address.password()
    assert (secure.namespaces, secure.read_only) == (("a", "b"), False)
    assert (secure.thresholds.aged_ms, secure.thresholds.poison_rc) == (120_000, 3)
    assert (url.address.user, url.address.password) == (None, None)
    assert (config.watched.read_only, config.watched.namespaces, config.watched.address.user) == (True, ("jobs",), None)
    assert config.naming_ns == {"", "plain", "secure", "url"}


def test_a_cluster_has_a_namespace_with_a_hash_tag_by_itself(tmp_path: Path) -> None:
    config = read(tmp_path, '[profiles.a]\ncluster = true\n[profiles.b]\ncluster = true\nnamespace = "{jobs}"')

    assert [config.profiles[name].ns for name in "ab"] == ["{rsmq}", "{jobs}"]
    assert config.naming_ns == {"b"}


P = "[profiles.a]\n"
WRONG: dict[str, tuple[str, str]] = {
    "syntax": ("a = 1\nb = \n", "2: Invalid value"),
    "syntax at the end": ("a = 1\n[profiles", "2: Expected ']' at the end of a table declaration"),
    "twice": (f"{P}port = 1\nport = 2", "3: Cannot overwrite a value"),
    "an unknown key": (f"{P}\nhots = 'x'", "3: unknown key hots in [profiles.a]; did you mean host?"),
    "a key of the defaults": ("[defaults]\nurl = 'redis://h'", "2: unknown key url in [defaults]"),
    "a key at the top": (
        "prot = 1",
        "1: unknown key prot at the top of the file; known keys: default, defaults, profiles",
    ),
    "a key of thresholds": (
        "[profiles.a.thresholds]\n\nstaled = '1m'",
        "3: unknown key staled in [profiles.a.thresholds]; did you mean stalled?",
    ),
    "thresholds that are none": (f"{P}thresholds = '1m'", "2: profiles.a.thresholds must be a table"),
    "a name": ("[profiles.'a,b']", "1: 'a,b' is not a valid profile name"),
    "a default": (f"default = 'b'\n{P}", "1: default is not the name of a profile: b"),
    "a default that is close": (
        "default = 'prd'\n[profiles.prod]",
        "1: default is not the name of a profile: prd; did you mean prod?",
    ),
    "the first of several": (f"{P}port = 0\n\ndb = 'x'\nhots = 1", "2: port must be a whole number from 1 to 65,535"),
    "a url": (f"{P}url = 'http://bob:hunter2@h'", "2: url is not a Redis URL: it must start with redis://"),
    "a url with signs": (f"{P}url = 'redis://:hun#ter2@h'", "2: url is not a Redis URL: its host or port"),
    "a url in brackets": (f"{P}url = 'rediss://[h'", "2: url is not a Redis URL"),
    "a host": (f"{P}host = 'redis://h'", "2: host must be a host name or an address"),
    "a port in quotes": (f"{P}port = '6379'", "2: port must be a whole number from 1 to 65,535, without quotes"),
    "a port that is true": (f"{P}port = true", "2: port must be a whole number"),
    "a database": (f"{P}db = -1", "2: db must be a whole number from 0"),
    "a flag": (f"{P}read_only = 'yes'", "2: read_only must be true or false, without quotes"),
    "a user": (f"{P}user = ''", "2: user must be a string in quotes, not empty"),
    "a path": (f"{P}socket = 5", "2: socket must be a string in quotes"),
    "a password": (f"{P}password = ['hunter2']", "2: password must be a string in quotes, not empty"),
    "a command": (f"{P}password_command = []", '2: password_command must be a command, such as "pass show redis"'),
    "a command with a quote": (f'{P}password_command = "it\'s"', "2: password_command has a quote that is not closed"),
    "a command of numbers": (f"{P}password_command = [1]", "2: password_command must be a command"),
    "nodes": (f"{P}sentinels = 'a:1'", '2: sentinels must be a list such as ["one.example:26379"'),
    "no nodes": (f"{P}cluster = []", '2: cluster must be a list such as ["one.example:6379"'),
    "one of the nodes": (
        f"{P}cluster = [\n'a:1',\n'a:x']",
        "4: cluster has an invalid element: write host:port",
    ),
    "a number of clusters": (f"{P}cluster = 3", "2: cluster must be true, or a list of nodes"),
    "a word": (
        f"{P}tls = true\ntls_verify = 'ful'",
        "3: tls_verify must be one of full, chain, none; did you mean full?",
    ),
    "a colour": (f"{P}colour = 'orang'", "2: colour must be #rrggbb or one of red, orange,"),
    "color": (f"{P}color = 'orang'", "2: color must be #rrggbb or one of red, orange,"),
    "both colours": (f"{P}colour = 'red'\ncolor = 'red'", "3: color and colour are the same key: give one of them"),
    "a short colour": (f"{P}colour = '#f00'", "2: colour must be #rrggbb"),
    "an interval": (f"{P}interval = 0.01", "2: interval must be seconds, 0.1 or more, or a duration"),
    "an interval that is none": (f"{P}interval = 'soon'", "2: interval must be seconds"),
    "a number of an interval": (f"{P}interval = nan", "2: interval must be seconds"),
    "a span": (f"{P}thresholds.aged = 600", '2: aged must be a duration such as "90s"'),
    "a span of nothing": (f"{P}thresholds.stalled = '0s'", "2: stalled must be a duration"),
    "a share": (f"{P}thresholds.growing_share = 2", "2: growing_share must be a fraction from 0 to 1"),
    "a count": (f"{P}thresholds.poison_rc = 0", "2: poison_rc must be a whole number from 1"),
    "namespaces": (f"{P}namespaces = 'a'", '2: namespaces must be a list of namespaces such as ["rsmq", "jobs"]'),
    "no namespaces": (f"{P}namespaces = []", "2: namespaces must be a list"),
    "namespaces twice": (f"{P}namespace = 'a'\nnamespaces = ['b']", "2: namespace and namespaces cannot be combined"),
    "url and host": (
        f"{P}url = 'redis://h'\nhost = 'x'",
        "3: host cannot be combined with url, which already gives the address",
    ),
    "url and tls": (f"{P}tls = true\nurl = 'redis://h'", "2: tls cannot be combined with url"),
    "socket and port": (f"{P}port = 1\nsocket = '/s'", "2: port cannot be combined with socket"),
    "sentinels and host": (
        f"{P}host = 'h'\nsentinels = ['a']\nsentinel_service = 'm'",
        "2: host cannot be combined with sentinels",
    ),
    "sentinels and cluster": (
        f"{P}cluster = true\nsentinels = ['a']\nsentinel_service = 'm'",
        "2: cluster cannot be combined with sentinels",
    ),
    "nodes and host": (f"{P}cluster = ['a']\nhost = 'h'", "3: host cannot be combined with cluster"),
    "a cluster in a database": (
        f"{P}cluster = true\ndb = 1",
        "1: [profiles.a] is not valid: a cluster has only database 0",
    ),
    "a cluster on a socket": (
        f"{P}url = 'unix:///s'\ncluster = true",
        "1: [profiles.a] is not valid: a unix socket leads to one server",
    ),
    "sentinels of nothing": (f"{P}sentinels = ['a']", "2: sentinels need sentinel_service"),
    "a service of nobody": (f"{P}sentinel_service = 'm'", "2: sentinel_service needs sentinels"),
    "two passwords": (
        f"{P}password_env = 'A'\npassword_file = 'b'",
        "3: password_file cannot be combined with password_env",
    ),
    "two passwords of sentinels": (
        f"{P}sentinels = ['a']\nsentinel_service = 'm'\nsentinel_password_env = 'A'\nsentinel_password = 'hunter2'",
        "5: sentinel_password cannot be combined with sentinel_password_env",
    ),
    "a password beside one in the url": (
        f"{P}url = 'redis://:hunter2@h'\npassword_env = 'A'",
        "3: password_env cannot be combined with a user or a password in url",
    ),
    "a user beside one in the url": (
        f"{P}url = 'redis://bob@h'\nuser = 'eve'",
        "3: user cannot be combined with a user or a password in url",
    ),
    "certificates for nothing": (
        f"{P}tls_ca = '/ca'",
        "2: tls_ca needs tls = true, or a url that begins with rediss://",
    ),
    "a key for nothing": (f"{P}tls = true\ntls_key = '/k'", "3: tls_key needs tls_cert"),
    "a namespace of a cluster": (
        f"{P}cluster = true\nnamespaces = ['{{a}}', 'b']",
        "3: namespace b needs a hash tag on a cluster, such as {rsmq}",
    ),
    "a default namespace of a cluster": (
        f"[defaults]\nnamespace = 'b'\n{P}cluster = true",
        "3: namespace b needs a hash tag",
    ),
    "a path in the home of nobody": (
        f"{P}socket = '~nosuchuser/s'",
        "2: socket names a home directory that is not known here: ~nosuchuser",
    ),
    "a command in the home of nobody": (
        f"{P}password_command = '~nosuchuser/pass'",
        "2: password_command names a home directory that is not known here: ~nosuchuser",
    ),
    "a name with signs": (f"{P}'a\\u001b[31m' = 1\n\"\\u001b[31m\" = 1", "2: unknown key a\\u001b[31m in"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told_with_its_line_and_what_is_allowed(tmp_path: Path, name: str) -> None:
    text, sentence = WRONG[name]

    assert refusal(tmp_path, text).startswith(sentence)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        (f"{P}password = 'hunter2'", 2, "password"),
        (f"{P}host = 'h'\nurl = 'redis://bob:hunter2@h'", 2, None),
        (f"{P}url = 'redis://bob:hunter2@h'", 2, "url"),
        (f"{P}url = 'redis://h?password=hunter2'", 2, "url"),
        (f"{P}url = 'redis://:hun/ter2@h'", 2, None),
        (f"{P}url = 'rediss://h?ssl_password=hunter2'", 2, "url"),
        (f"{P}url = 'rediss://h?ssl_keyfile=k&ssl%5Fpassword=hunter2'", 2, "url"),
        ("[defaults]\n\npassword = 'hunter2'", 3, "password"),
        (f"{P}sentinels = ['a']\nsentinel_service = 'm'\nsentinel_password = 'hunter2'", 4, "sentinel_password"),
    ],
)
def test_a_password_that_others_may_read_is_refused(
    tmp_path: Path, text: str, line: int, key: str | None, mode: int
) -> None:
    sentence = refusal(tmp_path, text, mode)

    assert sentence.startswith(f"{line}: ")
    if key is not None:
        path = tmp_path / "config.toml"
        assert sentence == (
            f"{line}: other users can read this file, and {key} contains a password: run `chmod 600 "
            f"{path}`, or better, "
            "use password_env, password_file or password_command"
        )
        assert read(tmp_path, text, 0o600).profiles.keys() <= {"a"}


def test_where_a_password_is_kept_may_be_read_by_all(tmp_path: Path) -> None:
    text = f"{P}password_env = 'A'\n[profiles.b]\nurl = 'redis://bob@h'\npassword_file = 'x'"
    with pytest.raises(ConfigError, match="cannot be combined with a user"):
        read(tmp_path, text, 0o644)

    assert read(tmp_path, f"{P}user = 'bob'\npassword_command = 'x'", 0o644).profiles["a"].address.user == "bob"


@pytest.mark.parametrize(("content", "words"), [(b"a = '\xff'", "is not UTF-8 text"), (b"[" * 100_000, ":1: ")])
def test_what_is_no_text_or_too_deep_is_told(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(content)

    with pytest.raises(ConfigError, match=words):
        read_config(path)


def test_lists_within_lists_are_told(tmp_path: Path) -> None:
    deep = "a = " + "[" * 20_000 + "]" * 20_000

    assert "too deep" in refusal(tmp_path, deep)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml cannot be read: No such file or directory"):
        read_config(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_config(tmp_path)


def test_a_device_is_an_empty_file() -> None:
    assert read_config(Path(os.devnull)).profiles == {}


def equal(config: Config) -> Any:
    return {name: (profile, profile.address.label) for name, profile in config.profiles.items()}


def test_the_order_of_keys_does_not_matter(tmp_path: Path) -> None:
    one = read(tmp_path, "[profiles.a]\nport = 1\n[defaults]\nread_only = true")
    two = read(tmp_path, "defaults.read_only = true\nprofiles.a = { port = 1 }")

    assert equal(one) == equal(two)


def test_a_password_beside_that_of_a_key_in_the_url_is_no_second_one(tmp_path: Path) -> None:
    address = read(tmp_path, f"{P}url = 'rediss://h?ssl_password=x'\npassword = 'hunter2'", 0o600).profiles["a"].address

    assert (address.has_password, address.has_secret) == (False, True)
    assert address.password is not None
    assert address.password() == "hunter2"


def test_what_is_read_does_not_show_its_values() -> None:
    value = Value("hunter2", ("profiles", "a", "password"))
    keys = _AddressKeys({"password": value}, {"password": value}, Mistakes(Path("x"), {}))

    assert "hunter2" not in f"{value!r} {keys!r} {[value]}"
    assert "password" in repr(value)


def test_expected_troubles(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """
        [defaults]
        ignore = ["*-dead", "dlq", "dlq"]
        [profiles.a]
        maintenance = [
            { from = 2031-05-18T00:00:00, to = 2031-05-18T00:00:01 },
            { from = 2031-05-17T02:00:00+02:00, to = 2031-05-17T00:00:30.5Z },
        ]
        [profiles.b]
        ignore = []
        """,
    )
    begin_ms = 1_936_742_400_000

    assert config.expected == {
        "": Expected(("*-dead", "dlq")),
        "a": Expected(
            ("*-dead", "dlq"), ((begin_ms, begin_ms + 30_500), (begin_ms + 86_400_000, begin_ms + 86_401_000))
        ),
    }
    assert config.profiles["a"].expected == config.expected["a"]


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ('ignore = "dlq"', '2: ignore must be a list of names and patterns of queues such as ["*-dead", "dlq"]'),
        ("ignore = [7]", "2: ignore must be a list of names"),
        (
            'ignore = [\n"rsmq:orders",\n"rsmq:rsmq/orders"]',
            "4: ignore cannot name a namespace: write rsmq:orders, for the queue in every namespace",
        ),
        ("maintenance = 7", "2: maintenance must be a list of times such as [{ from = 2031-05-17T02:00:00"),
        ("maintenance = [\n{ from = 2031-05-17T02:00:00 }]", "3: maintenance must be a list of times such as { from"),
        (
            "maintenance = [{ from = '1', to = 2031-05-17T02:00:00 }]",
            "2: maintenance has a time that is not one: write",
        ),
        ("maintenance = [{ from = 2031-05-17, to = 2031-05-18 }]", "2: maintenance has a time that is not one: write"),
        (
            "maintenance = [{ from = 2031-05-17T02:00:00, to = 2031-05-17T02:00:00 }]",
            "2: maintenance has a time that ends before it begins",
        ),
    ],
)
def test_mistakes_in_expected_troubles(tmp_path: Path, text: str, mistake: str) -> None:
    assert refusal(tmp_path, f"[profiles.a]\n{text}").startswith(mistake)


def test_time_zones(tmp_path: Path) -> None:
    config = read(tmp_path, '[defaults]\nzone = "Europe/Berlin"\n[profiles.a]\n[profiles.b]\nzone = "Asia/Kolkata"')

    assert config.watched.zone == config.profiles["a"].zone == "Europe/Berlin"
    assert config.profiles["b"].zone == "Asia/Kolkata"
    assert read(tmp_path, "[profiles.a]").profiles["a"].zone is None


@pytest.mark.parametrize("name", ["Mars/Base", "", "../etc/passwd", "/etc/localtime"])
def test_a_time_zone_that_is_not_known(tmp_path: Path, name: str) -> None:
    assert refusal(tmp_path, f'[profiles.a]\nzone = "{name}"').startswith("2: zone ")
