"""Which rows go to which target: what of the expression cannot be judged alike on all servers."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.errors import Refusal
from spirit_py.move.run import require_same_zone
from spirit_py.move.shards import zone_of_row

INNER = "(case when `a` then 0 else 1 end)"
BERLIN, NEW_YORK = "_utf8mb4'Europe/Berlin'", "_utf8mb4'America/New_York'"


@pytest.mark.parametrize(
    ("expression", "of_row"),
    [
        ("hour(`made`)", False),
        (f"hour(convert_tz(`made`,{BERLIN},_utf8mb4'UTC'))", False),
        ("hour(convert_tz(`made`,'+00:00',('Test/Zone')))", False),
        (f"convert_tz(`made`,if((`eu` = 1),{BERLIN},{NEW_YORK}),_utf8mb4'UTC')", False),
        (
            f"convert_tz(`made`,(case when (`a` = 1) then {BERLIN} else {NEW_YORK} end),'UTC')",
            False,
        ),
        (f"convert_tz(`made`,if((`eu` = 1),{BERLIN},NULL),_utf8mb4'UTC')", False),
        (f"convert_tz(`made`,elt(`a`,{BERLIN},{NEW_YORK}),_utf8mb4'UTC')", False),
        (f"convert_tz(`made`,coalesce({BERLIN},`zone`),_utf8mb4'UTC')", True),
        (f"convert_tz(`made`,({BERLIN} collate utf8mb4_bin),_utf8mb4'UTC')", False),
        ("convert_tz(`made`,`zone`,_utf8mb4'UTC')", True),
        ("convert_tz(`made`,_utf8mb4'UTC',`zone`)", True),
        (f"convert_tz(convert_tz(`made`,`zone`,'UTC'),{BERLIN},'UTC')", True),
        ("convert_tz(`made`,concat(_utf8mb4'Europe/',_utf8mb4'Berlin'),'UTC')", True),
        (f"convert_tz(`made`,if(`eu`,{BERLIN},`zone`),'UTC')", True),
        (f"convert_tz(`made`,(case `a` when 1 then {BERLIN} when 2 then `zone` end),'UTC')", True),
        (f"convert_tz(`m`,(case when {INNER} then {BERLIN} else `zone` end),'UTC')", True),
        (f"convert_tz(`m`,(case when {INNER} then {BERLIN} else {NEW_YORK} end),'UTC')", False),
        ("if((`text` = _utf8mb4'convert_tz(`made`,`zone`'),1,2)", False),
    ],
)
def test_a_zone_whose_name_comes_from_the_row_is_known(expression, of_row):
    """A text, or a choice among texts, can be asked for on both servers; nothing else can."""
    assert zone_of_row(expression) is of_row


@pytest.mark.parametrize(
    ("was", "now", "refused"),
    [
        ("", "'2020-01-01 00:00:00'", True),
        ("'2019-01-01 00:00:00'", "'2020-01-01 00:00:00'", True),
        ("'2020-01-01 00:00:00'", "'2020-01-01 00:00:00'", False),
        ("", "CURRENT_TIMESTAMP", False),
        ("", "'0000-00-00 00:00:00'", False),
    ],
)
@pytest.mark.parametrize("old", ["at", "was_at"])
def test_a_default_that_another_zone_makes_another_instant_is_refused(
    old: str, was: str, now: str, refused: bool
) -> None:
    """SYSTEM is a name that each server reads by itself, also in the session of the ALTER."""

    def table(default: str, name: str = "at") -> Any:
        text = f" DEFAULT {default}" if default else ""
        return SimpleNamespace(
            create_sql=f"CREATE TABLE `t` (\n  `id` int,\n  `{name}` timestamp NULL{text}\n)",
            full_name="s.t",
        )

    pairs = [SimpleNamespace(old=SimpleNamespace(name=old), new=SimpleNamespace(name="at"))]
    tables = {"source": table(was, old), "target": table(now)}
    mapping: Any = SimpleNamespace(keep=None, time_zone="", pairs=pairs, **tables)
    here: Any = SimpleNamespace(query=lambda _sql: [("2020-01-01 13:00:00",)])
    there: Any = SimpleNamespace(query=lambda _sql: [("2020-01-01 12:00:00",)])
    with pytest.raises(Refusal, match="TIMESTAMP defaults") if refused else nullcontext():
        require_same_zone(here, there, mapping, "SYSTEM")
