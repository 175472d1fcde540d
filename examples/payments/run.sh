#!/usr/bin/env bash
# Runs Stint for the payments until Ctrl-C. STINT_STORE names a PostgreSQL, MySQL or
# MariaDB database to book in; without it they are booked in the file payments.db here.
set -euo pipefail
cd "$(dirname "$0")"

api=${API:-127.0.0.1:8080} # where Stint listens

work=$(mktemp -d)
started=()
finish() {
	trap - EXIT INT TERM
	for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
	wait
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 0' INT TERM

if [ -z "${BIN:-}" ]; then
	BIN=$work/bin
	(cd ../.. && go build -o "$BIN/" ./cmd/stint)
fi
export STINT_STORE=${STINT_STORE:-sqlite:$PWD/payments.db}

"$BIN/stint" migrate --store "$STINT_STORE"
"$BIN/stint" serve --config stint.yaml --set "listen.api=$api" &
started+=($!)
until curl --silent --fail "http://$api/readyz" >/dev/null; do sleep 0.1; done
echo "ready: book on http://$api; Ctrl-C ends it"
wait "${started[@]}"
