#!/usr/bin/env bash
# Run by the mysql image when it makes the data of a server of docker-compose.semisync.yml: on the
# source the account that the replica reads with; on the replica, which SEMISYNC_SOURCE tells
# where its source is, whom to follow. Replication begins with the server proper.
sql() { MYSQL_PWD=$MYSQL_ROOT_PASSWORD mysql --protocol=socket -uroot; }
if [ -z "${SEMISYNC_SOURCE:-}" ]; then
  sql <<SQL
CREATE USER semisync_replica IDENTIFIED BY '$MYSQL_ROOT_PASSWORD';
GRANT REPLICATION SLAVE ON *.* TO semisync_replica;
SQL
else
  sql <<SQL
CHANGE REPLICATION SOURCE TO SOURCE_HOST = '$SEMISYNC_SOURCE', SOURCE_USER = 'semisync_replica',
  SOURCE_PASSWORD = '$MYSQL_ROOT_PASSWORD', SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1,
  SOURCE_CONNECT_RETRY = 1;
SQL
fi
