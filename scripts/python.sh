#!/usr/bin/env bash
# Works with the emitter's Python, in a virtual environment of its own (.tools/python).
#
#   scripts/python.sh path         prints a Python that can run the emitter, or nothing
#   scripts/python.sh ARGUMENTS…   runs python -m ARGUMENTS… in emitter/python, or says in one line why not
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$PWD/.tools/python

python=$(command -v python3 || true)
if [ -n "$python" ] && ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
	python=
fi

if [ "$*" = path ]; then
	echo "$python"
	exit
fi

not_run() {
	echo "emitter/python: $1 is not run: $2"
	exit 0
}

[ -n "$python" ] || not_run "$1" "there is no Python 3.10 or newer"
if ! cmp -s emitter/python/requirements-dev.txt "$venv/installed"; then
	rm -rf "$venv"
	"$python" -m venv "$venv" >/dev/null 2>&1 || not_run "$1" "this Python has no venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check --requirement emitter/python/requirements-dev.txt >"$venv/pip.log" 2>&1 ||
		not_run "$1" "pip can't install it (.tools/python/pip.log)"
	cp emitter/python/requirements-dev.txt "$venv/installed"
fi
cd emitter/python
exec "$venv/bin/python" -m "$@"
