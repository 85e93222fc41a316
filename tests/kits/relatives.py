"""Tables that refer to each other and have triggers, their writers, and what must always hold.

Each transaction writes one row of ``journal`` by itself: what it does to which order. Triggers
write the same into ``audit``, and count rows in their parents. So a trigger that fires twice or not
at all, a lost write and a row without its parent each break an invariant, which is one SELECT: it
may be asked at any moment, while everybody writes. An order keeps its ``ref`` when its key moves.

A savepoint at the beginning of each transaction proves before its COMMIT that it is still the same
transaction: the server must not have rolled back a part of it without an error. A failure shows all
transactions about the orders that it names (:mod:`tests.kits.histories`).

A cascade is the exception: MySQL 9.7.4 drops the error of one that ends in a deadlock or a timeout
behind the first row of a child (docs/triggers-and-foreign-keys.md). The statement changes no row of
the parent then, and a writer that sees so rolls back, as after the error.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
import time
from typing import TYPE_CHECKING, Any, Self

import MySQLdb

from tests.kits.histories import History, Recording, evidence, physical_tables, told
from tests.oracle import attached
from tests.oracle.case import statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.mysql import Database

CUSTOMERS, ORDERS = 40, 300
WRITERS = 4
#: Between two transactions of a writer, seconds.
PAUSE = 0.004
PATIENCE = 60.0
#: Refused because of another's row or lock, or because the snapshot is older than the swap.
FORGIVEN = frozenset({1205, 1213, 1412, 1451, 1452})
#: What a client gets whose server is gone, or is starting.
LOST = frozenset({1053, 1927, 2002, 2003, 2006, 2013, 2026, 2055})
NO_PARENT = 1452
NO_SAVEPOINT = 1305
#: The writers of each schema, whose history explains an invariant that is broken.
_WRITING: dict[str, Writers] = {}

_DEFINITIONS = """
CREATE TABLE customers (id INT NOT NULL PRIMARY KEY, orders_n INT NOT NULL DEFAULT 0);
CREATE TABLE orders (id INT NOT NULL PRIMARY KEY, ref INT NOT NULL, customer_id INT NOT NULL,
  up INT, v INT NOT NULL DEFAULT 0, items_n INT NOT NULL DEFAULT 0, KEY (ref),
  CONSTRAINT to_customer FOREIGN KEY (customer_id) REFERENCES customers (id),
  CONSTRAINT orders_ibfk_1 FOREIGN KEY (up) REFERENCES orders (id));
CREATE TABLE items (id INT NOT NULL PRIMARY KEY, order_id INT NOT NULL,
  CONSTRAINT to_order FOREIGN KEY (order_id) REFERENCES orders (id)
  ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE notes (id INT NOT NULL PRIMARY KEY, order_id INT,
  CONSTRAINT note_of FOREIGN KEY (order_id) REFERENCES orders (id)
  ON DELETE SET NULL ON UPDATE CASCADE);
CREATE TABLE audit (ref INT NOT NULL, what CHAR(1) NOT NULL, session BIGINT NOT NULL, KEY (ref));
CREATE TABLE journal (writer INT NOT NULL, n INT NOT NULL, ref INT NOT NULL, what CHAR(1) NOT NULL,
  PRIMARY KEY (writer, n), KEY (ref));
CREATE TRIGGER added AFTER INSERT ON orders FOR EACH ROW
BEGIN
  INSERT INTO audit VALUES (NEW.ref, 'i', CONNECTION_ID());
  UPDATE customers SET orders_n = orders_n + 1 WHERE id = NEW.customer_id;
END;
CREATE TRIGGER counted BEFORE UPDATE ON orders FOR EACH ROW
  SET NEW.v = IF(NEW.v = -1, OLD.v + 1, NEW.v);
CREATE TRIGGER moved AFTER UPDATE ON orders FOR EACH ROW
BEGIN
  UPDATE customers SET orders_n = orders_n + IF(id = NEW.customer_id, 1, -1)
    WHERE NEW.customer_id <> OLD.customer_id AND id IN (OLD.customer_id, NEW.customer_id);
END;
CREATE TRIGGER changed AFTER UPDATE ON orders FOR EACH ROW PRECEDES moved
BEGIN
  IF NEW.v <> OLD.v THEN
    INSERT INTO audit VALUES (NEW.ref, 'u', CONNECTION_ID());
  END IF;
END;
CREATE TRIGGER removed AFTER DELETE ON orders FOR EACH ROW
BEGIN
  INSERT INTO audit VALUES (OLD.ref, 'd', CONNECTION_ID());
  UPDATE customers SET orders_n = orders_n - 1 WHERE id = OLD.customer_id;
END;
CREATE TRIGGER item_added AFTER INSERT ON items FOR EACH ROW
  UPDATE orders SET items_n = items_n + 1 WHERE id = NEW.order_id;
CREATE TRIGGER item_moved AFTER UPDATE ON items FOR EACH ROW
  UPDATE orders SET items_n = items_n + IF(id = NEW.order_id, 1, -1)
  WHERE NEW.order_id <> OLD.order_id AND id IN (OLD.order_id, NEW.order_id);
CREATE TRIGGER item_removed BEFORE DELETE ON items FOR EACH ROW
  UPDATE orders SET items_n = items_n - 1 WHERE id = OLD.order_id;
"""

#: SELECTs that must return no row.
INVARIANTS = """
SELECT c.id, c.orders_n, COUNT(o.id) FROM customers c LEFT JOIN orders o ON o.customer_id = c.id
  GROUP BY c.id, c.orders_n HAVING COUNT(o.id) <> c.orders_n;
SELECT o.id, o.items_n, COUNT(i.id) FROM orders o LEFT JOIN items i ON i.order_id = o.id
  GROUP BY o.id, o.items_n HAVING COUNT(i.id) <> o.items_n;
SELECT ref, what, SUM(n) FROM (SELECT ref, what, 1 AS n FROM audit
  UNION ALL SELECT ref, what, -1 FROM journal WHERE ref > 0) audited
  GROUP BY ref, what HAVING SUM(n) <> 0;
SELECT o.ref, o.v, COUNT(a.ref) FROM orders o LEFT JOIN audit a ON a.ref = o.ref AND a.what = 'u'
  GROUP BY o.ref, o.v HAVING COUNT(a.ref) <> o.v;
SELECT j.ref, MAX(o.id) FROM journal j LEFT JOIN orders o ON o.ref = j.ref WHERE j.ref > 0
  GROUP BY j.ref HAVING SUM(j.what = 'i') - SUM(j.what = 'd') <> (MAX(o.id) IS NOT NULL);
SELECT o.id FROM orders o LEFT JOIN customers c ON c.id = o.customer_id WHERE c.id IS NULL;
SELECT o.id FROM orders o LEFT JOIN orders p ON p.id = o.up WHERE o.up > 0 AND p.id IS NULL;
SELECT i.id FROM items i LEFT JOIN orders o ON o.id = i.order_id WHERE o.id IS NULL;
SELECT n.id FROM notes n LEFT JOIN orders o ON o.id = n.order_id WHERE n.order_id > 0
  AND o.id IS NULL;
"""


def make_relatives(db: Database) -> None:
    """Make the tables with their first rows, which the triggers have seen."""
    for statement in statements(_DEFINITIONS):
        db.execute(statement)
    numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})"
    db.execute(f"INSERT INTO customers (id) {numbers.format(CUSTOMERS)} SELECT i FROM n")
    db.execute(
        "INSERT INTO orders (id, ref, customer_id)"
        f" {numbers.format(ORDERS)} SELECT i, i, 1 + i MOD {CUSTOMERS} FROM n"
    )
    db.execute("INSERT INTO journal SELECT -1, id, ref, 'i' FROM orders")
    db.execute("INSERT INTO items SELECT ref, ref FROM journal")
    db.execute("INSERT INTO notes SELECT id, id FROM orders")


def assert_holds(db: Database) -> None:
    """No invariant is broken, whoever writes meanwhile; all that are broken are named."""
    with contextlib.closing(db.connect()) as session:
        broken = [(one, found) for one in statements(INVARIANTS) if (found := _asked(session, one))]
        assert not broken, "\n".join(_explained(db, session, *each) for each in broken)


def _explained(db: Database, session: Any, invariant: str, found: list[tuple[Any, ...]]) -> str:
    """Return how an invariant is broken, whether it stays so, and who did what to its rows."""
    keys = {int(row[0]) for row in found[:5]}
    again = [row for row in _asked(session, invariant) if int(row[0]) in keys]
    lines = [f"{invariant}: {found[:5]}", f"asked again: {again}"]
    lines.append(physical_tables(db.query, db.name))
    if writers := _WRITING.get(db.name):
        lines.append(told([writer.history for writer in writers.all], keys))
    return "\n".join(lines)


def _asked(session: Any, sql: str) -> list[tuple[Any, ...]]:
    """Run a SELECT; again where a swap came between its snapshot and its reading."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with contextlib.closing(session.cursor()) as cursor:
                cursor.execute(sql)
                return list(cursor.fetchall())
        except MySQLdb.Error as error:
            if error.args[0] not in {1146, 1412} or time.monotonic() > deadline:
                raise


def catalogue(db: Database) -> tuple[attached.Found, attached.Found]:
    """Return all triggers and foreign keys of the schema."""
    return attached.triggers(db.query, db.name), attached.foreign_keys(db.query, db.name)


def assert_as_before(db: Database, before: tuple[attached.Found, attached.Found]) -> None:
    """Triggers and foreign keys are what they were, and none is left beside them."""
    for what, expected, actual in zip(
        ("trigger", "foreign key"), before, catalogue(db), strict=True
    ):
        attached.assert_equal(what, expected, actual)


class Writers:
    """Several sessions that insert, change, move and delete rows of all tables."""

    def __init__(self, db: Database, seed: int, count: int = WRITERS) -> None:
        """Prepare; the number of a transaction is unique within its writer."""
        self._db = db
        self._ended = threading.Event()
        self._may_be_lost = threading.Event()
        self.all = [_Writer(number, seed, db.name, self._open) for number in range(count)]
        _WRITING[db.name] = self
        self._threads = [
            threading.Thread(target=writer.work, args=(self._ended, self._may_be_lost), daemon=True)
            for writer in self.all
        ]

    def _open(self) -> Any:
        return MySQLdb.connect(
            host=self._db.server.host,
            port=self._db.server.port,
            user=self._db.server.user,
            passwd=self._db.server.password,
            db=self._db.name,
            charset="utf8mb4",
            autocommit=False,
            init_command="SET SESSION innodb_lock_wait_timeout = 5",
        )

    def __enter__(self) -> Self:
        """Begin to write."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End, and wait for the last transaction."""
        self._ended.set()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), f"{thread.name} hangs"

    @property
    def written(self) -> int:
        """How many transactions the server has confirmed."""
        return sum(len(writer.confirmed) for writer in self.all)

    @contextlib.contextmanager
    def server_away(self) -> Iterator[None]:
        """Let the writers lose their server within a `with` block, and wait until they are back."""
        self._may_be_lost.set()
        yield
        self.write_on()
        self._may_be_lost.clear()

    def write_on(self, transactions: int = 3) -> None:
        """Return when every writer has had more transactions confirmed."""
        before = [len(writer.confirmed) for writer in self.all]
        deadline = time.monotonic() + PATIENCE
        for writer, seen in zip(self.all, before, strict=True):
            while len(writer.confirmed) < seen + transactions:
                assert writer.failure is None, writer.failure
                assert time.monotonic() < deadline, f"writer {writer.number} writes no more"
                time.sleep(PAUSE)

    def assert_kept(self) -> None:
        """Exactly the confirmed transactions are there; nobody writes any more."""
        for writer in self.all:
            assert writer.failure is None, writer.failure
            found = {
                int(n)
                for (n,) in self._db.query(
                    "SELECT n FROM journal WHERE writer = %s", (writer.number,)
                )
            }
            lost, extra = writer.confirmed - found, found - writer.confirmed
            assert not lost, f"writer {writer.number}: lost {sorted(lost)[:5]}"
            assert not extra, f"writer {writer.number}: not confirmed {sorted(extra)[:5]}"


class _Gone(Exception):
    """An order, by key and ref, that was locked and cannot be deleted."""


class _Unfinished(Exception):
    """A cascade that the server could not finish, and did not report."""


class _Writer:
    """One session, and the numbers of its confirmed transactions."""

    def __init__(self, number: int, seed: int, schema: str, connect: Callable[[], Any]) -> None:
        self.number = number
        self.history = History(number)
        self._schema = schema
        self.confirmed: set[int] = set()
        self.failure: BaseException | None = None
        #: Transactions with a cascade that the server did not finish, without an error.
        self.unfinished = 0
        self._random = random.Random(f"{seed}/{number}")
        self._connect = connect
        # Numbers of rows are unique among all writers.
        self._new = itertools.count(1000 + number, 100)
        self._does = (
            *(self._insert, self._insert, self._change, self._change, self._move, self._rekey),
            *(self._delete, self._item, self._move_item, self._drop_item, self._note),
            *(self._customer, self._orphan),
        )

    def work(self, ended: threading.Event, may_be_lost: threading.Event) -> None:
        """Run one transaction after the other until the end."""
        session: Any = None
        try:
            for n in itertools.count():
                if ended.wait(PAUSE):
                    break
                session = session or self._connect()
                try:
                    self._one(session, n)
                except MySQLdb.Error as error:
                    if error.args[0] not in LOST or not may_be_lost.is_set():
                        raise
                    session = self._come_back(ended, n)
        except BaseException as error:
            self.failure = error
        finally:
            if session is not None:
                session.close()

    def _come_back(self, ended: threading.Event, n: int) -> Any:
        """Connect to the server that was gone, and look whether the last transaction is there."""
        while not ended.wait(0.05):
            with contextlib.suppress(MySQLdb.Error):
                session = self._connect()
                cursor = session.cursor()
                cursor.execute(
                    "SELECT 1 FROM journal WHERE writer = %s AND n = %s", (self.number, n)
                )
                if cursor.fetchall():
                    self.confirmed.add(n)
                session.rollback()
                return session
        return None

    def _one(self, session: Any, n: int) -> None:
        """Run a transaction; what is refused because of others is rolled back and forgotten."""
        transaction = self.history.begin(session, n)
        cursor = Recording(session.cursor(), transaction)
        try:
            cursor.execute("SAVEPOINT begun")
            if self._random.random() < 0.1:
                cursor.execute("SELECT COUNT(*) FROM orders")
            what, ref = self._random.choice(self._does)(cursor)
            cursor.execute(
                "INSERT INTO journal VALUES (%s, %s, %s, %s)", (self.number, n, ref, what)
            )
            cursor.execute("RELEASE SAVEPOINT begun")
            session.commit()
            self.confirmed.add(n)
            transaction.outcome = "committed"
        except MySQLdb.Error as error:
            transaction.outcome = f"ended by {error.args}"
            if error.args[0] == NO_SAVEPOINT:
                raise AssertionError(f"a part of it was undone: {transaction}") from error
            if error.args[0] not in FORGIVEN:
                raise
            session.rollback()
        except _Unfinished as unfinished:
            transaction.outcome = str(unfinished)
            self.unfinished += 1
            session.rollback()
        except _Gone as gone:
            key, ref = gone.args
            raise AssertionError(
                f"order {key} (ref {ref}) was there when it was locked, and is gone: {transaction}"
                f"\n{evidence(session, self._schema, 'orders', key=key, ref=ref)}"
            ) from gone
        finally:
            cursor.close()

    def _any(self, cursor: Any, table: str) -> int:
        """Lock a row and return its key; 0 where there is none."""
        cursor.execute(f"SELECT MAX(id) FROM {table}")
        most = self._random.randrange(int(cursor.fetchone()[0] or 0) + 1)
        cursor.execute(
            f"SELECT id FROM {table} WHERE id >= %s ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
            (most,),
        )
        found = cursor.fetchone()
        return int(found[0]) if found else 0

    def _order(self, cursor: Any) -> tuple[int, int]:
        """Return key and ref of a locked order."""
        key = self._any(cursor, "orders")
        cursor.execute("SELECT ref FROM orders WHERE id = %s", (key,))
        found = cursor.fetchone()
        return (key, int(found[0])) if found else (0, 0)

    def _insert(self, cursor: Any) -> tuple[str, int]:
        key, customer = next(self._new), self._any(cursor, "customers")
        cursor.execute(
            "INSERT INTO orders (id, ref, customer_id) VALUES (%s, %s, %s)", (key, key, customer)
        )
        for _ in range(self._random.randrange(3)):
            cursor.execute(
                "INSERT INTO items (id, order_id) VALUES (%s, %s)", (next(self._new), key)
            )
        return "i", key

    def _change(self, cursor: Any) -> tuple[str, int]:
        """Change an order once; the trigger makes the new value."""
        key, ref = self._order(cursor)
        if not key:
            return "-", 0
        if cursor.execute("UPDATE orders SET v = -1 WHERE id = %s", (key,)) != 1:
            raise _Gone(key, ref)
        return "u", ref

    def _move(self, cursor: Any) -> tuple[str, int]:
        """Give an order to another customer and another one above it."""
        key, _ = self._order(cursor)
        customer = self._any(cursor, "customers")
        up = self._random.choice((None, self._any(cursor, "orders") or None))
        if key and customer:
            cursor.execute(
                "UPDATE orders SET customer_id = %s, up = %s WHERE id = %s", (customer, up, key)
            )
        return "-", 0

    def _rekey(self, cursor: Any) -> tuple[str, int]:
        """Move an order to another key, and its items and notes with it."""
        key, ref = self._order(cursor)
        if key:
            change = ("UPDATE orders SET id = %s WHERE id = %s", (next(self._new), key))
            self._cascade(cursor, *change, key=key, ref=ref)
        return "-", 0

    def _delete(self, cursor: Any) -> tuple[str, int]:
        key, ref = self._order(cursor)
        if not key:
            return "-", 0
        cursor.execute("UPDATE orders SET up = NULL WHERE up = %s", (key,))
        self._cascade(cursor, "DELETE FROM orders WHERE id = %s", (key,), key=key, ref=ref)
        return "d", ref

    @staticmethod
    def _cascade(cursor: Any, sql: str, parameters: tuple[int, ...], *, key: int, ref: int) -> None:
        """Change a locked order, and what refers to it.

        Raises:
            _Unfinished: the server gave up without an error: after a deadlock the transaction is
                gone, after a timeout the order is still there.
            _Gone: the order is not there any more.
        """
        if cursor.execute(sql, parameters) == 1:
            return
        try:
            cursor.execute("RELEASE SAVEPOINT begun")
        except MySQLdb.Error as error:
            if error.args[0] != NO_SAVEPOINT:
                raise
            raise _Unfinished("rolled back by the server in a cascade, without an error") from error
        cursor.execute("SELECT id FROM orders WHERE id = %s FOR UPDATE", (key,))
        if cursor.fetchone() is None:
            raise _Gone(key, ref)
        raise _Unfinished("a cascade was not finished, without an error")

    def _item(self, cursor: Any) -> tuple[str, int]:
        key, _ = self._order(cursor)
        if key:
            cursor.execute(
                "INSERT INTO items (id, order_id) VALUES (%s, %s)", (next(self._new), key)
            )
        return "-", 0

    def _move_item(self, cursor: Any) -> tuple[str, int]:
        key, _ = self._order(cursor)
        item = self._any(cursor, "items")
        if key and item:
            cursor.execute("UPDATE items SET order_id = %s WHERE id = %s", (key, item))
        return "-", 0

    def _drop_item(self, cursor: Any) -> tuple[str, int]:
        cursor.execute("DELETE FROM items WHERE id = %s", (self._any(cursor, "items"),))
        return "-", 0

    def _note(self, cursor: Any) -> tuple[str, int]:
        key, _ = self._order(cursor)
        cursor.execute("DELETE FROM notes WHERE id = %s", (self._any(cursor, "notes"),))
        cursor.execute(
            "INSERT INTO notes (id, order_id) VALUES (%s, %s)", (next(self._new), key or None)
        )
        return "-", 0

    def _customer(self, cursor: Any) -> tuple[str, int]:
        """Make a customer, or try to remove one, which those with orders refuse."""
        if self._random.random() < 0.5:
            cursor.execute("INSERT INTO customers (id) VALUES (%s)", (next(self._new),))
        else:
            key = self._any(cursor, "customers")
            cursor.execute("DELETE FROM customers WHERE id = %s AND orders_n = 0", (key,))
        return "-", 0

    def _orphan(self, cursor: Any) -> tuple[str, int]:
        """Try to write a row without its parent: every time the server must refuse it."""
        table, row = self._random.choice(
            (("items", "%s, -5"), ("notes", "%s, -5"), ("orders", "%s, 0, -5, NULL, 0, 0"))
        )
        names = "id, order_id" if table != "orders" else "id, ref, customer_id, up, v, items_n"
        try:
            cursor.execute(f"INSERT INTO {table} ({names}) VALUES ({row})", (next(self._new),))
        except MySQLdb.Error as error:
            if error.args[0] == NO_PARENT:
                cursor.execute("DO 0")
                return "-", 0
            raise
        raise AssertionError(f"a row of {table} without a parent was accepted")
