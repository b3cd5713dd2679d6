#!/bin/sh
# tests/python.sh FOLDER: prints the Python 3 that tests and samples use: the first one that has NumPy, of the one that PATH
# finds, that of the system (for which tests/setup.sh installs NumPy) and a virtual environment in FOLDER, which is made if no
# other will do. Exit 3 and the reason if there is none.
folder=${1:?"usage: python.sh FOLDER"}
with_numpy() { "$1" -c 'import numpy, sys; print(sys.executable)' 2>/dev/null; }
for python in python3 /usr/bin/python3 "$folder/python/bin/python3"; do
    with_numpy "$python" && exit 0
done
for python in python3 /usr/bin/python3; do
    { "$python" -m venv "$folder/python" && "$folder/python/bin/python3" -m pip install -q numpy; } >/dev/null 2>&1 &&
        with_numpy "$folder/python/bin/python3" && exit 0
done
echo "no Python 3 has NumPy, and none could be made in $folder/python: install python3-numpy" >&2
exit 3
