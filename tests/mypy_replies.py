"""A plugin of mypy: in tests, redis-py's commands take and give what a connection does that decodes nothing.

redis-py has one type for all replies of a command, whatever its options are: members of a sorted set may be text, pairs
or lists, and here they are bytes. Mappings of its arguments are invariant, and a pipeline gives itself, not a reply.
"""

from collections.abc import Callable

from mypy.checker import TypeChecker
from mypy.nodes import TypeInfo
from mypy.plugin import CheckerPluginInterface, MethodContext, MethodSigContext, Plugin
from mypy.types import AnyType, FunctionLike, Instance, Type, TypeOfAny, UnionType, get_proper_type

_CONTAINERS = {"builtins.list", "builtins.dict", "builtins.set", "typing.Awaitable", "typing.Coroutine"}
_OF_ANYTHING = {"hset", "hmget", "hdel", "zadd", "lrem", "lmove", "restore"}


class Replies(Plugin):
    """Calls of redis-py's methods from modules of the tests."""

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        return _reply if fullname.startswith("redis.") else None

    def get_method_signature_hook(self, fullname: str) -> Callable[[MethodSigContext], FunctionLike] | None:
        is_loose = fullname.startswith("redis.") and fullname.rpartition(".")[2] in _OF_ANYTHING
        return _of_anything if is_loose else None


def _is_of_tests(checker: CheckerPluginInterface) -> bool:
    return isinstance(checker, TypeChecker) and checker.tree.fullname.startswith("tests.")


def _reply(context: MethodContext) -> Type:
    if not _is_of_tests(context.api):
        return context.default_return_type
    if isinstance(context.type, Instance) and context.type.type.name == "Pipeline":
        return AnyType(TypeOfAny.special_form)
    return _loosened(context.default_return_type)


def _loosened(declared: Type) -> Type:
    """The type with Any for each union in it."""
    proper = get_proper_type(declared)
    if isinstance(proper, UnionType):
        return AnyType(TypeOfAny.special_form)
    if isinstance(proper, Instance) and proper.args and _is_container(proper.type):
        return proper.copy_modified(args=[_loosened(argument) for argument in proper.args])
    return declared


def _is_container(info: TypeInfo) -> bool:
    return info.fullname in _CONTAINERS


def _of_anything(context: MethodSigContext) -> FunctionLike:
    signature = context.default_signature
    if not _is_of_tests(context.api):
        return signature
    return signature.copy_modified(arg_types=[AnyType(TypeOfAny.special_form) for _ in signature.arg_types])


def plugin(version: str) -> type[Plugin]:
    """What mypy asks for."""
    return Replies
