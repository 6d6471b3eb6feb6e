#!/usr/bin/env bash
# Gradescope runs this as root when it builds the image of the autograder. Everything it installs is in this archive,
# but for Python @PYTHON@ itself where the base image has none.
set -euo pipefail
cd "$(dirname "$0")"
# The programs that are graded run as another user: the key of the course is not theirs to read.
chown -R root:root .
chmod 700 .
[ ! -e course.key ] || chmod 600 course.key
if ! command -v python@PYTHON@ >/dev/null; then
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends python@PYTHON@ python@PYTHON@-venv
fi
python@PYTHON@ -m venv --without-pip /opt/shuffledp-labs
pip=$(echo wheels/pip-*.whl)
/opt/shuffledp-labs/bin/python "$pip/pip" install --quiet --disable-pip-version-check --root-user-action=ignore \
    --no-index --find-links wheels shuffledp-labs
rm -r wheels
/opt/shuffledp-labs/bin/shuffledp lab list >/dev/null # a broken image shows now, and not with the first submission
# The sandbox for containers without user namespaces copies an interpreter: once here rather than for each submission.
SHUFFLEDP_LAB_BOX=user /opt/shuffledp-labs/bin/python -P -c \
    'from shuffledp_labs.teaching.grading import require_sandbox; require_sandbox()'
