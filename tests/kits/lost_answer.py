"""An ALTER whose answer is lost, or that others have made another one in place of."""

from spirit_py.errors import ServerFault


class LosesTheAnswer:
    """A session whose connection is lost after an ALTER was carried out.

    Args:
        instead: what other sessions do in place of the ALTER.
        then: what they do after it.
    """

    def __init__(self, desk, db, *, instead: str = "", then: str = ""):
        self.id = desk.native.id
        self.query = desk.native.query
        self._session = desk.native
        self._db = db
        self._instead = instead
        self._then = then
        #: Whether the answer arrives all the same.
        self.answers = False
        #: How the statement begins whose answer is lost, and whether one is.
        self.lost_at, self.lost = "ALTER", False

    def execute(self, sql: str) -> int:
        """Run the statement, then lose the connection and the answer."""
        if not sql.startswith(self.lost_at):
            return self._session.execute(sql)
        if self._instead:
            self._db.execute(self._instead)
        else:
            self._session.execute(sql)
        if self._then:
            self._db.execute(self._then)
        if self.answers:
            return 0
        self._db.execute(f"KILL {self._session.id}")
        self.lost = True
        raise ServerFault(2013, "Lost connection to server during query", where="test")
