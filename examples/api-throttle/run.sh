#!/usr/bin/env bash
# Runs two nodes of Stint in front of one repository, on one MariaDB, until Ctrl-C.
# MARIADB_HOST, MARIADB_PORT and MARIADB_USER (root) name a server whose database stint
# may be made and used without a password; without them a temporary server is started,
# if MariaDB is installed.
set -euo pipefail
cd "$(dirname "$0")"

nodes=("${INSTANCE_1:-127.0.0.1:8001}" "${INSTANCE_2:-127.0.0.1:8002}") # where each Stint listens
apis=("${API_1:-127.0.0.1:8081}" "${API_2:-127.0.0.1:8082}")
repository=${REPOSITORY:-127.0.0.1:9001}

work=$(mktemp -d)
started=()
finish() {
	trap - EXIT INT TERM
	for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
	for pid in "${started[@]}"; do wait "$pid" 2>/dev/null || true; done
	if [ -n "${server:-}" ]; then kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; fi
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 0' INT TERM

if [ -z "${BIN:-}" ]; then
	BIN=$work/bin
	(cd ../.. && go build -o "$BIN/" ./cmd/stint ./examples/api-throttle/repository)
fi

if [ -z "${MARIADB_HOST:-}" ]; then
	export MARIADB_HOST=127.0.0.1 MARIADB_PORT=${MARIADB_PORT:-13306}
	server_program=$(command -v mariadbd || command -v mysqld || ls /usr/sbin/mariadbd 2>/dev/null) || true
	[ -n "$server_program" ] || { echo "set MARIADB_HOST to the host of a MariaDB or MySQL server"; exit 1; }
	as=()
	if [ "$(id -u)" = 0 ]; then as=(--user=mysql); chown mysql "$work"; fi
	mariadb-install-db --no-defaults "${as[@]}" --datadir="$work/data" --auth-root-authentication-method=normal --skip-test-db >"$work/install.log"
	"$server_program" --no-defaults "${as[@]}" --datadir="$work/data" --socket="$work/socket" --bind-address=127.0.0.1 --port="$MARIADB_PORT" 2>"$work/mariadb.log" &
	server=$!
	until mariadb-admin --no-defaults --protocol=tcp --host=127.0.0.1 --port="$MARIADB_PORT" --user=root --silent ping >/dev/null 2>&1; do sleep 0.1; done
fi
export MARIADB_PORT=${MARIADB_PORT:-3306}
export STINT_STORE="mysql://${MARIADB_USER:-root}@$MARIADB_HOST:$MARIADB_PORT/stint"

mariadb --no-defaults --protocol=tcp --host="$MARIADB_HOST" --port="$MARIADB_PORT" --user="${MARIADB_USER:-root}" -e 'CREATE DATABASE IF NOT EXISTS stint'
"$BIN/stint" migrate --store "$STINT_STORE"
if [ "$(./sql --skip-column-names -e 'SELECT COUNT(*) FROM stint_rule')" = 0 ]; then ./sql <rules.sql; fi

"$BIN/repository" --listen "$repository" &
started+=($!)
for i in 0 1; do
	"$BIN/stint" serve --config stint.yaml --set "listen.proxy=${nodes[i]}" --set "listen.api=${apis[i]}" --set "proxy.upstream=http://$repository" &
	started+=($!)
done
for api in "${apis[@]}"; do
	until curl --silent --fail "http://$api/readyz" >/dev/null; do sleep 0.1; done
done
echo "ready: two nodes, on ${nodes[*]}; Ctrl-C ends them"
wait "${started[@]}"
