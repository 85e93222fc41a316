"""R26: a GRANT that an error names, pasted, gives what is missing, and nothing elsewhere."""

from __future__ import annotations

import pytest

from spirit_py.mysql.connect import connect
from spirit_py.mysql.grants import read_grants
from tests.kits.connection import account


@pytest.fixture(params=["OFF", "ON"])
def revokes(request, db):
    """Have the server take schema names of grants as patterns, or as they are."""
    ((before,),) = db.query("SELECT @@GLOBAL.partial_revokes")
    db.execute(f"SET GLOBAL partial_revokes = {request.param}")
    yield request.param
    db.execute(f"SET GLOBAL partial_revokes = {before}")


@pytest.mark.slow
@pytest.mark.parametrize("held", ["USAGE ON *.*", "SELECT ON {db}.*"], ids=["nothing", "a part"])
def test_a_pasted_remedy_gives_what_is_missing_in_that_schema_alone(db, revokes, held):
    """With and without partial_revokes; what the account had stays."""
    other = db.name.replace("_", "x")
    with account(db, held) as options, connect(options, role="test") as session:
        before = read_grants(session)
        had = [one for one in ("SELECT", "INSERT", "TRIGGER") if before.has(one, db.name)]
        missing = before.missing(["INSERT", "TRIGGER"], db.name)
        db.execute(before.grant(missing, db.name))
        after = read_grants(session)
        assert not after.missing([*had, "INSERT", "TRIGGER"], db.name)
        assert after.missing(["INSERT", "TRIGGER"], other) == ["INSERT", "TRIGGER"]

        db.execute("CREATE TABLE t (a INT)")
        with connect(options, role="test") as again:
            again.execute(f"INSERT INTO `{db.name}`.t VALUES (1)")
            if had:
                assert again.query(f"SELECT a FROM `{db.name}`.t") == [(1,)]
