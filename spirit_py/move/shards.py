"""Several targets or sources: which rows go to which of them, and what they must share (pure).

A target keeps the rows for which the expression of ``--shard-by`` is its name, judged by the server
as ``--keep`` is: the copy and the comparison on the source, the applier among the staged images of
the changed rows. A row that changes its shard is deleted on one target, and written on another. The
expression of a row that gives no target's name is an error of the server, in each of these.

Where there are several sources, the expression gives the name of the source that a row is on: the
row of another one is an error. On the target it tells the sources' rows apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from spirit_py import errors
from spirit_py.applier.state import other_keys
from spirit_py.classes import replace
from spirit_py.preflight.check import refuse
from spirit_py.sql import string_literal
from spirit_py.statement.lexer import DEFAULT_MODE, tokenize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spirit_py.checkpoint.record import CheckpointRecord
    from spirit_py.config import MoveConfig, Shard
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.preflight.check import Finding, PreflightContext
    from spirit_py.statement.lexer import Token
    from spirit_py.table.mapping import TableMapping

_Each = TypeVar("_Each")
#: Functions that return one of their arguments, from so many on.
_CHOOSES: Final = {"IF": 1, "ELT": 1, "COALESCE": 0, "IFNULL": 0}


def condition(expression: str, name: str, names: Iterable[str], *, server: str = "target") -> str:
    """Render which rows the server of that name gets; an error of MySQL for one of nobody.

    The error is 1411, whose text shows the value.
    """
    cases = " ".join(
        f"WHEN {string_literal(one)} THEN {'TRUE' if one == name else 'FALSE'}" for one in names
    )
    return _judged(expression, cases, f"no {server} is named ")


def of_source(expression: str, name: str) -> str:
    """Render that a row is the source's of that name; an error of the server for any other."""
    case = f"WHEN {string_literal(name)} THEN TRUE"
    return _judged(expression, case, f"the source {name} has a row of ")


def _judged(expression: str, cases: str, wrong: str) -> str:
    said = f"CONCAT({string_literal(wrong)}, IFNULL(({expression}), 'NULL'))"
    # The server looks at ELSE only where no name is equal, and at no constant of it before.
    return f"CASE ({expression}) {cases} ELSE UUID_TO_BIN({said}) IS NULL END"


def facing(
    contexts: Sequence[PreflightContext], config: MoveConfig
) -> tuple[PreflightContext, ...]:
    """Return the contexts of the tables as they go between the servers that a config faces."""
    if not config.shard:
        return tuple(contexts)
    if config.sources:
        keep = of_source(config.shard_by, config.shard)
    else:
        keep = condition(config.shard_by, config.shard, [one.name for one in config.shards])
    own = replace(
        contexts[0].config,
        connection=config.connection,
        target=config.target,
        shard=config.shard,
        modes=replace(config.modes, keep=keep),
    )
    return tuple(replace(one, config=own) for one in contexts)


def owned(context: PreflightContext, config: MoveConfig) -> PreflightContext:
    """Return a table's context whose condition is that of its source's rows on the target."""
    names = [one.name for one in config.sources]
    keep = condition(config.shard_by, config.shard, names, server="source")
    return replace(context, config=replace(context.config, modes=replace(config.modes, keep=keep)))


def zone_of_row(expression: str) -> bool:
    """Return whether a time zone's name is computed from the row, not chosen among texts.

    Of an expression as the server writes it. Each server reads a zone in tables of its own, and
    only those that the expression names can be compared.
    """
    tokens = tokenize(expression, DEFAULT_MODE)
    return any(
        not all(map(_is_text, _arguments(tokens[place + 1 :])[1:]))
        for place, token in enumerate(tokens)
        if token.upper == "CONVERT_TZ"
    )


def _arguments(tokens: Sequence[Token]) -> list[list[Token]]:
    """Return the arguments of a call, whose parenthesis is the first token."""
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth -= token.is_symbol(")")
        if not depth and token.is_symbol(")"):
            break
        if depth == 1 and token.is_symbol(","):
            found.append([])
        elif depth:
            found[-1].append(token)
        depth += token.is_symbol("(")
    return found


def _is_text(tokens: Sequence[Token]) -> bool:
    """Return whether an expression is a text, or one of texts by a condition."""
    words = [token.upper for token in tokens]
    if not tokens or (tokens[-1].kind == "string" and len(tokens) <= 1 + words[0].startswith("_")):
        return bool(tokens)
    if words == ["NULL"]:
        return True
    if "COLLATE" in words[-2:-1]:
        return _is_text(tokens[:-2])
    if tokens[0].is_symbol("("):
        return _is_text(_arguments(tokens)[0])
    if words[0] in _CHOOSES:
        return all(map(_is_text, _arguments(tokens[1:])[_CHOOSES[words[0]] :]))
    return words[0] == "CASE" and all(map(_is_text, _results(tokens)))


def _results(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield what stands behind each THEN and ELSE of a CASE itself."""
    depth = 0
    found: list[Token] | None = None
    for token in tokens:
        word = token.upper
        depth -= word == "END" or token.is_symbol(")")
        if depth <= 1 and word in {"WHEN", "ELSE", "END"}:
            if found is not None:
                yield found
            found = None
        if found is not None:
            found.append(token)
        if depth == 1 and word in {"THEN", "ELSE"}:
            found = []
        depth += word == "CASE" or token.is_symbol("(")


def with_shards(record: CheckpointRecord, names: Sequence[str]) -> CheckpointRecord:
    """Return a new record, with the progress of the tables on each of several targets."""
    first, *others = ([replace(one, shard=name) for one in record.tables] for name in names)
    return replace(
        record, tables=tuple(first), shards=tuple(one for each in others for one in each)
    )


def require_told_apart(mapping: TableMapping) -> None:
    """Refuse a definition under which the rows of several sources could not be told apart.

    What judges a row must be the same on both sides, and each unique key must name its rows by
    columns that are carried as they are.
    """
    alike = {
        pair.old.name.lower()
        for pair in mapping.pairs
        if pair.old.name.lower() == pair.new.name.lower()
        and pair.old.type_identity == pair.new.type_identity
        and pair.old.collation == pair.new.collation
    }
    judged = mapping.owned.columns if mapping.owned is not None else ()
    wrong = [column.name for column in judged if column.name.lower() not in alike]
    if wrong:
        names = ", ".join(wrong)
        why = f"--shard-by reads {names}, which is generated, or which the ALTER changes"
        raise _not_told_apart(mapping, why)
    for index in other_keys(mapping):
        if not index.columns or not alike.issuperset(name.lower() for name in index.columns):
            raise _not_told_apart(
                mapping, f"the unique key {index.name} has a part that is no column of the source"
            )
    if mapping.merging:
        raise _not_told_apart(mapping, "the ALTER adds a unique key, or makes keys equal")


def _not_told_apart(mapping: TableMapping, why: str) -> errors.Refusal:
    return errors.Refusal(
        f"the rows of several sources could not be told apart in {mapping.source.full_name}: {why}",
        hint="make that change on the target, after the move",
    )


def twice(config: MoveConfig, facts: Sequence[ServerFacts]) -> Iterator[Finding]:
    """Yield which of the sources, or targets, are one server; ``facts`` are of all."""
    names: dict[str, str] = {}
    for kind, shard, one in of_each_kind(config, facts):
        if (other := names.setdefault(one.uuid, shard.name)) != shard.name:
            yield refuse(
                f"the {kind}s {other} and {shard.name} are one server",
                "name another server for each: the tables have the same names on all of them",
            )


def of_each_kind(config: MoveConfig, each: Sequence[_Each]) -> Iterator[tuple[str, Shard, _Each]]:
    """Yield what belongs to each of several sources, or targets; ``each`` has it for all."""
    for kind, shards, own in (
        ("source", config.sources, each[: len(config.sources)]),
        ("target", config.shards, each[len(each) - len(config.shards) :]),
    ):
        for shard, one in zip(shards, own, strict=True):
            yield kind, shard, one
