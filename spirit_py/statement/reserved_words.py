"""The words that are names only in quotes (manual 11.3, Keywords and Reserved Words).

As ``information_schema.KEYWORDS`` of MySQL 9.7 has them, with those that earlier versions
reserved. A superfluous word does no harm: a quoted name then differs from the unquoted one.
"""

from __future__ import annotations

import re
from typing import Final

from spirit_py.sql import quote_identifier

_WORDS: Final = """
    accessible add all alter analyze and as asc asensitive before between bigint binary blob
    both by call cascade case change char character check collate column condition constraint
    continue convert create cross cube cume_dist current_date current_time current_timestamp
    current_user cursor database databases day_hour day_microsecond day_minute day_second dec
    decimal declare default delayed delete dense_rank desc describe deterministic distinct
    distinctrow div double drop dual each else elseif empty enclosed escaped except exists
    exit explain external false fetch first_value float float4 float8 for force foreign from
    fulltext function generated get grant group grouping groups having high_priority
    hour_microsecond hour_minute hour_second if ignore in index infile inner inout insensitive
    insert int int1 int2 int3 int4 int8 integer intersect interval into io_after_gtids
    io_before_gtids is iterate join json_table key keys kill lag last_value lateral lead
    leading leave left library like limit linear lines load localtime localtimestamp lock long
    longblob longtext loop low_priority master_bind master_ssl_verify_server_cert match
    maxvalue mediumblob mediumint mediumtext middleint minute_microsecond minute_second mod
    modifies natural no_write_to_binlog not nth_value ntile null numeric of on optimize
    optimizer_costs option optionally or order out outer outfile over partition percent_rank
    precision primary procedure purge qualify range rank read read_write reads real recursive
    references regexp release rename repeat replace require resignal restrict return revoke
    right rlike row row_number rows schema schemas second_microsecond select sensitive
    separator set show signal smallint spatial specific sql sql_big_result sql_calc_found_rows
    sql_small_result sqlexception sqlstate sqlwarning ssl starting stored straight_join system
    table tablesample terminated then tinyblob tinyint tinytext to trailing trigger true undo
    union unique unlock unsigned update usage use using utc_date utc_time utc_timestamp values
    varbinary varchar varcharacter varying virtual when where while window with write xor
    year_month zerofill
"""
RESERVED: Final = frozenset(_WORDS.split())
_PLAIN: Final = re.compile(r"[a-z_\u0080-\U0010ffff][0-9a-z_$\u0080-\U0010ffff]*")


def bare_name(name: str) -> str:
    """Write a quoted name, in lower case; without quotes where they are not needed."""
    folded = name.lower()
    plain = _PLAIN.fullmatch(folded) is not None and folded not in RESERVED
    return folded if plain else quote_identifier(folded)
