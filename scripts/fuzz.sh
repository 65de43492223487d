#!/bin/sh
# Runs each fuzz target of the module for the given time, one after the other: go test runs only one at a time.
set -eu
time=${1:-30s}
grep -rlE '^func Fuzz' --include='*_test.go' . | sort | while read -r file; do
	for target in $(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' "$file"); do
		go test -run='^$' -fuzz="^$target\$" -fuzztime="$time" -fuzzminimizetime=10x "$(dirname "$file")"
	done
done
