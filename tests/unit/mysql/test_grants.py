"""Reading SHOW GRANTS."""

from __future__ import annotations

import pytest

from spirit_py.mysql.grants import parse_grants

USER = "TO `u`@`%`"


def grants(*lines: str, **more):
    """Parse grants to user ``u``."""
    return parse_grants([f"{line} {USER}" for line in lines], **more)


def test_a_global_privilege_holds_in_every_schema():
    """A global privilege holds in every schema."""
    found = grants("GRANT SELECT, LOCK TABLES, REPLICATION SLAVE ON *.*")
    assert found.has("SELECT", "s", "t")
    assert found.has("LOCK TABLES", "s")
    assert found.has_global("REPLICATION SLAVE")
    assert not found.has("INSERT", "s", "t")


def test_all_privileges_hold_where_they_are_granted():
    """ALL PRIVILEGES holds for each of them, where it is granted."""
    found = grants("GRANT ALL PRIVILEGES ON `s`.*")
    assert found.has("TRIGGER", "s", "t")
    assert not found.has("TRIGGER", "other", "t")
    assert not found.has_global("PROCESS")


def test_dynamic_privileges_are_global():
    """Dynamic privileges are global ones."""
    assert grants("GRANT BACKUP_ADMIN,XA_RECOVER_ADMIN ON *.*").has_global("XA_RECOVER_ADMIN")


@pytest.mark.parametrize(
    ("pattern", "schema", "matches"),
    [
        ("shop", "shop", True),
        ("shop", "shopping", False),
        ("shop%", "shopping", True),
        ("sh_p", "shop", True),
        (r"sh\_p", "shop", False),
        (r"sh\_p", "sh_p", True),
        (r"a.b\%", "a.b%", True),
        ("a.b", "aXb", False),
        ("%", "anything", True),
    ],
)
def test_schema_wildcards_match_as_the_server_matches(pattern, schema, matches):
    """The wildcards of a schema's name match as the server matches them."""
    assert grants(f"GRANT SELECT ON `{pattern}`.*").has("SELECT", schema, "t") is matches


def test_under_partial_revokes_a_wildcard_is_a_letter():
    """Under partial_revokes a wildcard is a plain letter."""
    found = grants("GRANT SELECT ON `sh_p`.*", partial_revokes=True)
    assert not found.has("SELECT", "shop")
    assert found.has("SELECT", "sh_p")


def test_a_partial_revoke_is_missing_in_its_schema_only():
    """A global privilege that is revoked for a schema is missing there, and only there."""
    lines = ["GRANT SELECT, INSERT ON *.*", "REVOKE INSERT ON `s`.*"]
    found = parse_grants([f"{lines[0]} {USER}", f"{lines[1]} FROM `u`@`%`"], partial_revokes=True)
    assert not found.has("INSERT", "s", "t")
    assert found.has("SELECT", "s", "t")
    assert found.has("INSERT", "other", "t")


def test_a_grant_on_one_table_reaches_no_other():
    """A grant on one table does not reach the next; a grant on columns is none on the table."""
    found = grants("GRANT SELECT, INSERT (`a`, `b`), UPDATE ON `s`.`t`")
    assert found.has("SELECT", "s", "t")
    assert found.has("UPDATE", "s", "t")
    assert not found.has("SELECT", "s", "u")
    assert not found.has("SELECT", "s")
    assert not found.has("INSERT", "s", "t")


def test_roles_proxies_and_routines_grant_no_table():
    """Roles, proxies and routines say nothing about tables."""
    found = grants(
        "GRANT `reader`@`%`", "GRANT PROXY ON ``@``", "GRANT EXECUTE ON PROCEDURE `s`.`p`"
    )
    assert found.lines == ()
    assert len(found.text) == 3


def test_a_quoted_schema_name_is_read():
    """A schema's name may hold a backquote."""
    assert grants("GRANT SELECT ON `a``b`.*").has("SELECT", "a`b", "t")


def test_the_most_precise_name_of_a_schema_counts_alone():
    """R25: the server adds nothing of a wildcard to it (measured on 9.7)."""
    found = grants("GRANT SELECT ON `shop`.*", "GRANT ALL PRIVILEGES ON `sh%`.*")
    assert found.has("SELECT", "shop", "t")
    assert not found.has("TRIGGER", "shop", "t")
    assert found.has("TRIGGER", "shoes", "t")
    wide = grants("GRANT SELECT ON `s%`.*", "GRANT ALL PRIVILEGES ON `sh%`.*")
    assert not wide.has("TRIGGER", "shop", "t")
    assert grants("GRANT TRIGGER ON `shop`.`t`", "GRANT SELECT ON `shop`.*").has(
        "TRIGGER", "shop", "t"
    )
    assert not grants("GRANT TRIGGER ON `sh_p`.`t`").has("TRIGGER", "shop", "t")


@pytest.mark.parametrize(
    ("partial_revokes", "schema", "table", "scope"),
    [
        (False, "my_db%", "", "`my\\_db\\%`.*"),
        (True, "my_db%", "", "`my_db%`.*"),
        (False, "my_db", "t_1", "`my_db`.`t_1`"),
    ],
)
def test_a_remedy_names_one_schema(partial_revokes, schema, table, scope):
    """R26: without partial_revokes a schema's name is a pattern, but not in a table's scope."""
    found = parse_grants([], "me@%", partial_revokes=partial_revokes)
    assert found.grant(["SELECT"], schema, table) == f"GRANT SELECT ON {scope} TO `me`@`%`;"


def test_a_remedy_takes_nothing_away():
    """The server takes the most precise name of a schema alone: it gets what the wider one gave."""
    found = parse_grants(["GRANT SELECT, CREATE VIEW ON `my_db`.* TO me"], "me@%")
    given = "TRIGGER, CREATE VIEW, SELECT"
    assert found.grant(["TRIGGER"], "my_db") == f"GRANT {given} ON `my\\_db`.* TO `me`@`%`;"
    exact = parse_grants(["GRANT SELECT ON `my\\_db`.* TO me"], "me@%")
    assert exact.grant(["TRIGGER"], "my_db") == "GRANT TRIGGER ON `my\\_db`.* TO `me`@`%`;"
