#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs `repro-check gate` in CI and leaves its reports where the CI looks for them. Ends with the code of
# the gate, whatever happens to the reports: 0 reproducible, 1 divergence, 2 usage, 3 damaged, 4 nothing
# to compare with, 5 a run failed, 70 internal.
#
#   ci/repro-check-gate.sh [argument of the gate ...]
#
#   REPRO_CHECK            the program (repro-check)
#   REPRO_CHECK_CONFIG     configuration (gate.json); "" when --against is among the arguments
#   REPRO_CHECK_REPORTS    directory of the reports (repro-check-reports)
#   REPRO_CHECK_FORMATS    formats in order (junit sarif html markdown json)
#   GITHUB_STEP_SUMMARY, GITHUB_OUTPUT, GITLAB_CI as the services set them
set -euo pipefail

say() { printf 'repro-check-gate: %s\n' "$*" >&2; }

die() {
  say "error: $*"
  exit 2
}

# What a format is called on the disk.
file_of() {
  case "$1" in
    junit) echo junit.xml ;;
    sarif) echo report.sarif ;;
    html) echo report.html ;;
    markdown) echo summary.md ;;
    json) echo report.json ;;
    jsonl) echo report.jsonl ;;
    text) echo report.txt ;;
    codequality) echo codequality.json ;;
    *) die "REPRO_CHECK_FORMATS: '$1' is no format" ;;
  esac
}

tool="${REPRO_CHECK:-repro-check}"
config="${REPRO_CHECK_CONFIG-gate.json}"
reports="${REPRO_CHECK_REPORTS:-repro-check-reports}"
read -r -a formats <<<"${REPRO_CHECK_FORMATS:-junit sarif html markdown json}"

command -v "$tool" >/dev/null 2>&1 || die "$tool is not a program: install repro-check, or set REPRO_CHECK"
if [ -n "$config" ] && [ ! -f "$config" ]; then die "$config is not there: set REPRO_CHECK_CONFIG"; fi

arguments=(gate)
if [ -n "$config" ]; then arguments+=(-c "$config"); fi
mkdir -p "$reports"
for format in "${formats[@]}"; do
  name="$(file_of "$format")" || exit 2
  rm -f "$reports/$name" # one of an earlier gate must not speak for this one
  arguments+=(--report "$format=$reports/$name")
done
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
  arguments+=(--report "markdown=+$GITHUB_STEP_SUMMARY")
fi
# Kept until the end: `cat` in between would lose the code of the gate.
status=0
"$tool" "${arguments[@]}" "$@" || status=$?

missing=()
for format in "${formats[@]}"; do
  name="$(file_of "$format")"
  if [ ! -s "$reports/$name" ]; then missing+=("$name"); fi
done
if [ "${#missing[@]}" -gt 0 ]; then
  say "no ${missing[*]} in $reports"
  # A gate that passes has written its reports; one that did not is not believed.
  if [ "$status" -eq 0 ]; then status=70; fi
fi
if [ -n "${GITHUB_OUTPUT:-}" ]; then
  printf 'exit-code=%s\nreports=%s\n' "$status" "$reports" >>"$GITHUB_OUTPUT"
fi
exit "$status"
