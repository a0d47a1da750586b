# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts of this folder: where things are, and how they speak.

repo_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

say() { printf '== %s\n' "$*" >&2; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# A file that includes LibTorch takes up to 2 GB to compile: no more at once than memory holds.
build_jobs() {
  local cores memory_kb by_memory
  cores="$(nproc)"
  memory_kb="$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)"
  by_memory=$((memory_kb / 2000000))
  if [ "$by_memory" -lt 1 ]; then by_memory=1; fi
  echo $((cores < by_memory ? cores : by_memory))
}

# build <preset> [target ...]: configures when needed and builds.
build() {
  local preset="$1"
  shift
  say "building preset $preset in build/$preset"
  (
    cd "$repo_root"
    cmake --preset "$preset"
    if [ "$#" -gt 0 ]; then
      cmake --build --preset "$preset" -j "$(build_jobs)" --target "$@"
    else
      cmake --build --preset "$preset" -j "$(build_jobs)"
    fi
  )
}

# The Python that has torch, for making models in the tests; empty when there is none.
torch_python() {
  local python
  for python in python3 "$repo_root/.venv/bin/python3"; do
    if has_libtorch "$python"; then
      command -v "$python"
      return
    fi
  done
}

# Whether a Python has a torch that CMake can use. Found without importing it, which takes a second.
has_libtorch() {
  command -v "$1" >/dev/null 2>&1 || return 1
  "$1" - >/dev/null 2>&1 <<'PYTHON'
import importlib.util, os, sys
spec = importlib.util.find_spec("torch")
config = spec and spec.origin and os.path.join(
    os.path.dirname(spec.origin), "share", "cmake", "Torch", "TorchConfig.cmake")
sys.exit(0 if config and os.path.isfile(config) else 1)
PYTHON
}

# A new folder in memory, where there is room for one that lets programs run; else nothing. Tests write thousands
# of small files, and wait until each is on the disk.
folder_in_memory() {
  local folder room_kb=4000000 free_kb available_kb
  free_kb="$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)"
  available_kb="$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)"
  if [ "${free_kb:-0}" -lt "$room_kb" ] || [ "$available_kb" -lt $((2 * room_kb)) ]; then return 0; fi
  folder="$(mktemp -d /dev/shm/repro-check-tests-XXXXXX)" || return 0
  chmod 0711 "$folder"  # a test that starts a program as another user passes through it
  printf '#!/bin/sh\n' >"$folder/runs" && chmod +x "$folder/runs"
  if "$folder/runs" 2>/dev/null; then echo "$folder"; else rm -rf "$folder"; fi
}
