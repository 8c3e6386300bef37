"""EVAL, EVALSHA and SCRIPT, by the Lua of ``lupa`` (extra ``listserver``): enough for the scripts of this package.

Scripts have ``KEYS``, ``ARGV``, ``redis.call`` and the other functions of ``redis``, and the tables, strings and
numbers of Lua 5.1; no ``cjson``, ``cmsgpack``, ``struct`` or ``bit``.
"""

import importlib
from hashlib import sha1
from typing import Any

from rsmq_tui.listserver.command import command, find, integer
from rsmq_tui.listserver.engine import NO_REPLY, Client
from rsmq_tui.listserver.resp import NO_ARRAY, CommandError, Reply, number

# A script that runs for longer is ended.
SCRIPT_S_MAX = 5
_LOWEST = -(1 << 63)
_PRELUDE = b"""
local call, sha1hex, now, sethook, seconds_max = ...
local function guarded(...)
  local reply = call(...)
  if type(reply) == 'table' and reply.err then error(reply, 0) end
  return reply
end
redis = {
  call = guarded, pcall = call, sha1hex = sha1hex,
  status_reply = function(text) return {ok = text} end,
  error_reply = function(text) return {err = string.find(text, '^%u+ ') and text or 'ERR ' .. text} end,
  log = function() end, setresp = function() end, replicate_commands = function() return true end,
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
}
server = redis
local environment = {redis = redis, server = server, _VERSION = _VERSION}
for _, name in ipairs{'assert', 'error', 'ipairs', 'math', 'next', 'pairs', 'pcall', 'rawequal', 'rawget', 'rawset',
    'select', 'setmetatable', 'getmetatable', 'string', 'table', 'tonumber', 'tostring', 'type', 'unpack', 'xpcall'} do
  environment[name] = _G[name]
end
string.dump = nil
setmetatable(environment, {
  __index = function(_, name) error("Script attempted to access nonexistent global variable '" .. name .. "'", 2) end,
  __newindex = function(_, name) error("Script attempted to create global variable '" .. name .. "'", 2) end,
})
local function run(script, keys, arguments)
  rawset(environment, 'KEYS', keys)
  rawset(environment, 'ARGV', arguments)
  local ends = now() + seconds_max
  sethook(function()
    if now() > ends then sethook() error('Script ran for more than ' .. seconds_max .. ' s') end
  end, '', 100000)
  local is_ok, result = pcall(script)
  sethook()
  return is_ok, result
end
local function compile(text)
  local script, error_text = loadstring(text, '@user_script')
  if script then setfenv(script, environment) end
  return script, error_text
end
return compile, run
"""


class Scripting:
    """A Lua runtime and the scripts that were loaded into it."""

    def __init__(self) -> None:
        import time  # noqa: PLC0415

        lupa: Any = importlib.import_module("lupa.lua51")
        self._lua = lupa.LuaRuntime(
            encoding=None, register_eval=False, register_builtins=False, unpack_returned_tuples=True
        )
        self._table_type = lupa.lua_type
        self._lua_error = lupa.LuaError
        self._compile, self._run = self._lua.execute(
            _PRELUDE, self._call, lambda text: sha1(text, usedforsecurity=False).hexdigest().encode(), time.monotonic,
            self._lua.eval(b"debug.sethook"), SCRIPT_S_MAX,
        )  # fmt: skip
        self.scripts: dict[bytes, tuple[bytes, Any]] = {}
        self._client: Client | None = None

    def load(self, text: bytes) -> bytes:
        """Compile a script and keep it; return its SHA1 digest. Raises ``CommandError``."""
        digest = sha1(text, usedforsecurity=False).hexdigest().encode()
        if digest not in self.scripts:
            compiled, error = self._compile(text)
            if compiled is None:
                raise CommandError(f"ERR Error compiling script (new function): {_text(error)}")
            self.scripts[digest] = text, compiled
        return digest

    def run(self, client: Client, digest: bytes, words: tuple[bytes, ...]) -> Reply:
        """Run a loaded script; ``words`` are the number of keys, the keys and the arguments."""
        count = integer(words[0])
        if count < 0:
            raise CommandError("ERR Number of keys can't be negative")
        if count > len(words) - 1:
            raise CommandError("ERR Number of keys can't be greater than number of args")
        keys, arguments = self._lua.table(*words[1 : count + 1]), self._lua.table(*words[count + 1 :])
        before = client.is_atomic, client.version, client.index
        client.is_atomic, client.version, self._client = True, 2, client
        try:
            is_ok, result = self._run(self.scripts[digest][1], keys, arguments)
        finally:
            client.is_atomic, client.version, client.index = before
        if is_ok:
            try:
                return self._to_reply(result)
            except RecursionError:
                # A table may contain itself.
                return CommandError("ERR reached lua stack limit")
        is_table = self._table_type(result) == "table"
        raised = result[b"err"] if is_table else result
        text = _text(raised) if isinstance(raised, bytes) else "nil" if raised is None else str(raised)
        return CommandError(
            f"{'' if is_table and raised is not None else 'ERR '}{text} script: {digest.decode()}, on @user_script."
        )

    def _call(self, *words: "bytes | int | float") -> object:
        client = self._client
        assert client is not None
        try:
            request = [word if isinstance(word, bytes) else number(word) for word in words]
            found = find(request)
            if "noscript" in found.flags:
                raise CommandError("ERR This Redis command is not allowed from script")
            reply = client.call(found, request)
        except (TypeError, IndexError):
            reply = CommandError("ERR Lua redis lib command arguments must be strings or integers")
        except CommandError as error:
            reply = error
        return self._to_lua(None if reply is NO_REPLY else reply)

    def _to_lua(self, reply: Reply) -> object:
        match reply:
            case None:
                return False
            case bool() | int() | bytes():
                return reply
            case str():
                return self._lua.table_from({b"ok": reply.encode()})
            case float():
                return number(reply)
            case CommandError():
                return self._lua.table_from({b"err": str(reply).encode("utf-8", "surrogateescape")})
            case dict():
                return self._lua.table(*(self._to_lua(part) for pair in reply.items() for part in pair))
            case list() | tuple() | set():
                return self._lua.table(*map(self._to_lua, reply))
            case _ if reply is NO_ARRAY:
                return False
        raise TypeError(f"{reply!r} is not a reply")

    def _to_reply(self, value: Any) -> Reply:
        if value is None or value is False:
            return None
        if isinstance(value, bytes):
            return value
        if isinstance(value, int | float):
            # As on other servers, what is no integer of 64 bits becomes the lowest one.
            return int(value) if abs(value) < -_LOWEST else _LOWEST
        if self._table_type(value) != "table":
            return None
        error, status = value[b"err"], value[b"ok"]
        if isinstance(error, bytes):
            return CommandError(_text(error))
        if isinstance(status, bytes):
            return _text(status)
        found: list[Reply] = []
        while (element := value[len(found) + 1]) is not None:
            found.append(self._to_reply(element))
        return found


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _scripting(client: Client) -> Scripting:
    found: Scripting | None = client.server.scripting
    if found is None:
        try:
            found = client.server.scripting = Scripting()
        except ModuleNotFoundError:
            # Clients that can work without scripts recognise a server without scripts by these first words.
            raise CommandError(
                "ERR unknown command 'EVAL': scripts need lupa: pip install 'rsmq-tui[listserver]'"
            ) from None
    return found


@command("EVAL script numkeys [word...]", "noscript skip_monitor may_replicate no_mandatory_keys stale movablekeys")
def _eval(client: Client, text: bytes, *words: bytes) -> Reply:
    scripting = _scripting(client)
    return scripting.run(client, scripting.load(text), words)


@command("EVALSHA digest numkeys [word...]", "noscript skip_monitor may_replicate no_mandatory_keys stale movablekeys")
def _evalsha(client: Client, digest: bytes, *words: bytes) -> Reply:
    scripting = _scripting(client)
    if digest.lower() not in scripting.scripts:
        raise CommandError("NOSCRIPT No matching script.")
    return scripting.run(client, digest.lower(), words)


@command("SCRIPT|LOAD script", "noscript stale")
def _script_load(client: Client, text: bytes) -> Reply:
    return _scripting(client).load(text)


@command("SCRIPT|EXISTS digest...", "noscript")
def _script_exists(client: Client, *digests: bytes) -> Reply:
    return [int(digest.lower() in _scripting(client).scripts) for digest in digests]


@command("SCRIPT|FLUSH [mode...]", "noscript may_replicate")
def _script_flush(client: Client, *mode: bytes) -> Reply:
    if client.server.scripting is not None:
        client.server.scripting.scripts.clear()
    return "OK"


@command("FUNCTION|FLUSH [mode...]", "write noscript")
def _function_flush(client: Client, *mode: bytes) -> Reply:
    # There are no functions, but tests that clear a server also flush them.
    return "OK"
