"""What of the server's general log is the making and the filling of the new table."""

from collections import deque

from benchmarks import recording

COPY = "REPLACE INTO `b`.`_t_new` (`id`) SELECT `id` FROM `b`.`t` FORCE INDEX (`PRIMARY`) WHERE {}"
LOG = [
    (7, "CREATE TABLE `b`.`_t_e0127f` LIKE `b`.`t`"),
    (7, "ALTER TABLE `b`.`_t_e0127f` ENGINE=InnoDB"),
    (7, "ALTER TABLE `b`.`_t_e0127f` RENAME TO `b`.`_t_new`"),
    (7, "CREATE TABLE `b`.`_t_chkpnt` (id INT)"),
    (8, COPY.format(1)),
    (9, COPY.format(2)),
    (8, "/* chunk 3 */ " + COPY.format(3)),
    (7, "REPLACE INTO `b`.`_t_new` (`id`) VALUES (1)"),
    (7, "SELECT COUNT(*) FROM `b`.`_t_new`"),
    (7, "ALTER TABLE `b`.`_t_new` ADD INDEX `k` (`k`)"),
    (7, "RENAME TABLE `b`.`t` TO `b`.`_t_old`, `b`.`_t_new` TO `b`.`t`"),
    (7, "DROP TABLE `b`.`_t_new`"),
]


def test_each_sessions_ranges_stay_together_and_in_order():
    """Threads take over whole sessions: neighbouring ranges fall to the same thread as before."""
    assert recording.sorted_out(LOG).sessions == [
        [COPY.format(1), "/* chunk 3 */ " + COPY.format(3)],
        [COPY.format(2)],
    ]


def test_the_new_table_is_made_as_the_program_makes_it():
    """Under the name that it has at first; checkpoint table and swap have no part in it."""
    assert recording.sorted_out(LOG).before == [text for _, text in LOG[:3]]


def test_an_index_that_is_built_behind_the_copy_is_built_by_the_threads_too():
    """What changes the new table when it is full comes after the rows."""
    assert recording.sorted_out(LOG).after == ["ALTER TABLE `b`.`_t_new` ADD INDEX `k` (`k`)"]


def test_applied_changes_are_no_copy():
    """REPLACE ... VALUES comes from the change feed, and is not run again."""
    assert recording.sorted_out(LOG).statements == 3


def test_a_worker_goes_on_with_its_session_and_then_takes_another():
    """Every statement is handed out once, also where there are more sessions than workers."""
    share = recording._Share([["a", "b"], ["c"], ["d"]])
    first: deque[str] = deque()
    second: deque[str] = deque()
    taken = []
    for _ in range(3):
        statement, first = share.next(first)
        taken.append(("first", statement))
        statement, second = share.next(second)
        taken.append(("second", statement))
    assert taken == [
        ("first", "a"),
        ("second", "c"),
        ("first", "b"),
        ("second", "d"),
        ("first", None),
        ("second", None),
    ]
