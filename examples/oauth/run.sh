#!/usr/bin/env bash
# Runs a token endpoint behind three Stints that share one store, until Ctrl-C.
# STINT_STORE names the store, such as mongodb://localhost/stint; without it they
# share a SQLite file. CONFIG names another rules file than stint.yaml.
set -euo pipefail
cd "$(dirname "$0")"

instances=("${INSTANCE_1:-127.0.0.1:8001}" "${INSTANCE_2:-127.0.0.1:8002}" "${INSTANCE_3:-127.0.0.1:8003}")
apis=("${API_1:-127.0.0.1:8081}" "${API_2:-127.0.0.1:8082}" "${API_3:-127.0.0.1:8083}")
auth=${AUTH:-127.0.0.1:9082}
config=${CONFIG:-stint.yaml}

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
	(cd ../.. && go build -o "$BIN/" ./cmd/stint ./examples/quickstart/demo)
fi
export STINT_STORE=${STINT_STORE:-sqlite:$work/stint.db}

"$BIN/stint" migrate --store "$STINT_STORE"
"$BIN/demo" -listen "$auth" &
started+=($!)
for i in 0 1 2; do
	"$BIN/stint" serve --config "$config" --set "listen.proxy=${instances[i]}" --set "listen.api=${apis[i]}" --set "proxy.upstream=http://$auth" &
	started+=($!)
done
for api in "${apis[@]}"; do
	until curl --silent --fail "http://$api/readyz" >/dev/null; do sleep 0.1; done
done
echo "ready: three instances, on ${instances[*]}; Ctrl-C ends them"
wait "${started[@]}"
