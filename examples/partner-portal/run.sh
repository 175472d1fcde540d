#!/usr/bin/env bash
# Runs two instances of the portal on one PostgreSQL, each behind its own Stint,
# until Ctrl-C. STINT_STORE names the database; without it a temporary server is
# started, if PostgreSQL is installed.
set -euo pipefail
cd "$(dirname "$0")"

instances=("${INSTANCE_1:-127.0.0.1:9091}" "${INSTANCE_2:-127.0.0.1:9095}") # where each Stint listens
portals=("${PORTAL_1:-127.0.0.1:9081}" "${PORTAL_2:-127.0.0.1:9085}")
apis=("${API_1:-127.0.0.1:8091}" "${API_2:-127.0.0.1:8095}")

work=$(mktemp -d)
started=()
finish() {
	trap - EXIT INT TERM
	for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
	wait
	if [ -n "${server:-}" ]; then kill -INT "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; fi
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 0' INT TERM

if [ -z "${BIN:-}" ]; then
	BIN=$work/bin
	(cd ../.. && go build -o "$BIN/" ./cmd/stint ./examples/partner-portal/portal)
fi

if [ -z "${STINT_STORE:-}" ]; then
	initdb=$(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null | tail -1 || command -v initdb) || true
	[ -n "$initdb" ] || { echo "set STINT_STORE to the URL of a PostgreSQL database, such as postgres://user:password@host/portal"; exit 1; }
	as=()
	if [ "$(id -u)" = 0 ]; then as=(setpriv --reuid=postgres --regid=postgres --clear-groups); chown postgres "$work"; fi
	"${as[@]}" "$initdb" -D "$work/data" -A trust -U portal -E UTF8 --locale=C.UTF-8 >"$work/initdb.log"
	"${as[@]}" "$(dirname "$initdb")/postgres" -D "$work/data" -k "$work" -p "${POSTGRES_PORT:-15432}" -c listen_addresses=127.0.0.1 2>"$work/postgres.log" &
	server=$!
	STINT_STORE="postgres://portal@127.0.0.1:${POSTGRES_PORT:-15432}/postgres?sslmode=disable"
	until "$(dirname "$initdb")/pg_isready" -q -h 127.0.0.1 -p "${POSTGRES_PORT:-15432}"; do sleep 0.1; done
fi
export STINT_STORE

"$BIN/stint" migrate --store "$STINT_STORE"
for i in 0 1; do
	"$BIN/portal" --listen "${portals[i]}" --database "$STINT_STORE" &
	started+=($!)
	"$BIN/stint" serve --config stint.yaml --set "listen.proxy=${instances[i]}" --set "listen.api=${apis[i]}" --set "proxy.upstream=http://${portals[i]}" &
	started+=($!)
done
for api in "${apis[@]}"; do
	until curl --silent --fail "http://$api/readyz" >/dev/null; do sleep 0.1; done
done
echo "ready: two instances, on ${instances[*]}; Ctrl-C ends them"
wait "${started[@]}"
