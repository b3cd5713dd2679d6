# Installs what building and testing need on Debian 12 or later, if something is missing. Sourced by samples/run.sh
# and tests/run.sh. Nothing here is needed where a compiled step runs. liblld-16-dev is for the library of our own
# (codegen/llvm/llvm_library.cc), without which all works, slower.
stepc_packages="gcc g++ binutils cmake ninja-build pkg-config lld llvm-16-dev libcjson-dev zlib1g-dev check libsubunit-dev clang-format-16 libopenblas0-pthread python3 python3-numpy"

stepc_setup() {
    missing=
    for package in $stepc_packages; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    [ -z "$missing" ] || stepc_install || return 3
    dpkg-query -W -f '${Status}' liblld-16-dev 2>/dev/null | grep -q 'ok installed' ||
        stepc_try "documents take half as long again to compile" liblld-16-dev || true
}

stepc_install() {
    echo "== installing$missing"
    sudo=
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || { echo "run this as root, or install sudo, or install by hand:$missing" >&2; return 3; }
        sudo=sudo
    fi
    log=$(mktemp)
    { $sudo apt-get update -q && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing; } \
        >"$log" 2>&1 || { cat "$log" >&2; rm -f "$log"; echo "apt-get could not install:$missing" >&2; return 3; }
    rm -f "$log"
}

# stepc_try WITHOUT PACKAGE...: where they can be installed; the rest builds and passes its tests without.
stepc_try() {
    without=$1
    shift
    sudo=
    [ "$(id -u)" = 0 ] || sudo="sudo -n"
    echo "== installing $*"
    { $sudo apt-get update -q && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"; } \
        >/dev/null 2>&1 || { echo "skipped: cannot install $* here; $without" >&2; return 3; }
}

# What meshes of processes need: an MPI. `samples/run.sh mpi` and `tests/run.sh` ask for it.
stepc_mpi() {
    command -v mpicc >/dev/null && command -v mpirun >/dev/null ||
        stepc_try "meshes of processes are not built" openmpi-bin libopenmpi-dev
}

# stepc_python FOLDER: sets `python` to a Python 3 with NumPy, if need be a virtual environment in FOLDER, and says which.
stepc_python() {
    python=$(sh tests/python.sh "$1") || return 3
    echo "== Python with NumPy: $python"
}

# stepc_build FOLDER PRESET [TARGET...]
stepc_build() {
    folder=$1 preset=$2
    shift 2
    echo "== building ($preset) in $folder"
    cmake --preset "$preset" -B "$folder" >"$folder.configure.log" 2>&1 || { cat "$folder.configure.log" >&2; return 1; }
    rm -f "$folder.configure.log"
    cmake --build "$folder" -- --quiet "$@"
}
