#!/bin/sh
# Installs from this folder, without a network:
#   sh install.sh [FOLDER]            the service, into /opt/allocator
#   sh install.sh --client [FOLDER]   the command line, alloc, into /opt/allocator-client
# PYTHON names another interpreter than python3; it has to be of the version that the wheels are for.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
if [ "${1:-}" = --client ]; then
    shift
    requirements=requirements-client.txt
    target=${1:-/opt/allocator-client}
    other=manage.py
else
    requirements=requirements.txt
    target=${1:-/opt/allocator}
    other=venv/bin/alloc
fi
if [ $# -gt 1 ] || [ "${target#-}" != "$target" ]; then
    echo "install.sh takes one folder, with --client before it for the command line." >&2
    exit 2
fi
if [ -e "$target/$other" ]; then
    echo "$target has $other: the service and the command line need a folder each." >&2
    exit 2
fi
python=${PYTHON:-python3}

echo "Checking the files ..."
(cd "$here" && sha256sum --check --quiet --strict SHA256SUMS)
extra=$(cd "$here" && find . -type f ! -name SHA256SUMS | wc -l)
if [ "$extra" -ne "$(wc -l <"$here/SHA256SUMS")" ]; then
    echo "There are files here that SHA256SUMS does not name." >&2
    exit 1
fi

echo "Installing into $target ..."
mkdir -p "$target"
"$python" -m venv --clear "$target/venv"
# --isolated: no pip.conf and no variable leads to an index.
"$target/venv/bin/python" -m pip --isolated install --quiet --disable-pip-version-check --no-input \
    --no-index --find-links "$here/wheels" --require-hashes --no-deps --requirement "$here/$requirements"
"$target/venv/bin/python" -m pip --isolated check
if [ "$other" = manage.py ]; then
    echo "Installed. $target/venv/bin/alloc login ADDRESS is next, or a link to it where people look for programs."
    exit
fi
cp "$here/manage.py" "$here/.env.example" "$here/roles.sql" "$target/"
rm -rf "$target/deploy" "$target/docs"
cp -R "$here/deploy" "$here/docs" "$target/"

echo "Installed. What is next is in $target/docs/guides/operators.html: the two roles (roles.sql),"
echo "/etc/allocator/environment (from .env.example), and the units in $target/deploy/systemd."
