#!/usr/bin/env bash
# Run by the mysql image when it initialises the data of a server of docker-compose.semisync.yml. On
# the source it creates the replication account; on the replica, where SEMISYNC_SOURCE is the address
# of the source, it configures the source. Replication begins when the server itself starts.
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
