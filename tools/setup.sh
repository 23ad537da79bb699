# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What tools/quickstart, tools/test and .ci/run share: install what is missing, configure, build.
# All of it prints to stderr only, so that stdout carries nothing but answers.  Sourced, not run.

# The repository, wherever it lies and from wherever it is called; not a folder of links to it, in whose
# name build/ would be configured.
root="$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")" && cd .. && pwd)"

say() { printf '%s\n' "$*" >&2; }
fail() {
  say "$(basename -- "$0"): $*"
  exit 1
}

# Of the lines it reads it shows the latest: in place on a terminal, every 30 s elsewhere.
show_progress() {
  local line width shown=$SECONDS
  if [[ ! -t 2 ]]; then
    while IFS= read -r line; do
      ((SECONDS - shown < 30)) || { say "$line" && shown=$SECONDS; }
    done
    return 0
  fi
  # COLUMNS is unset in scripts; stty asks the terminal.
  width="$(stty size <&2 2>/dev/null | cut -d' ' -f2 || true)"
  [[ "$width" =~ ^[1-9][0-9]*$ ]] || width=80
  while IFS= read -r line; do
    printf '\r\033[K%.*s' "$((width - 1))" "$line" >&2
  done
  printf '\r\033[K' >&2
}

# run_quietly WHAT LOG COMMAND...: a line of progress; the whole log if the command fails.
run_quietly() {
  local what="$1" log="$2"
  shift 2
  if ! "$@" 2>&1 | tee -- "$log" | show_progress; then
    cat -- "$log" >&2
    fail "$what failed; its output is above and in $log"
  fi
}

# ensure_packages GROUP...: installs the Debian packages of these groups that dpkg does not know as
# installed.  With none missing, neither apt nor the network is touched.
ensure_packages() {
  local wanted installed missing=() package as_root=()
  mapfile -t wanted < <("$root/tools/dependencies" "$@")
  if ! command -v dpkg-query >/dev/null; then
    say "This is not Debian: taking for granted that these are installed: ${wanted[*]}"
    return 0
  fi
  installed="$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null || true)"
  for package in "${wanted[@]}"; do
    grep -qxF "$package installed" <<<"$installed" || missing+=("$package")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0

  if [[ $EUID -ne 0 ]]; then
    command -v sudo >/dev/null ||
      fail "packages are missing, and you are neither root nor have sudo; ask for
  apt-get install --no-install-recommends ${missing[*]}"
    as_root=(sudo)
    sudo -v || fail "sudo refused; these packages are missing: ${missing[*]}"
  fi
  say "Installing from Debian: ${missing[*]}"
  mkdir -p "$root/build"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q)
  # A stale third-party list must not stop us: whether the packages are there, the install will tell.
  "${apt[@]}" update >"$root/build/apt-update.log" 2>&1 ||
    say "apt-get update had errors (build/apt-update.log); going on with the lists there are"
  run_quietly "apt-get install" "$root/build/apt-install.log" \
    "${apt[@]}" install --no-install-recommends "${missing[@]}"
}

# configure PRESET [-DNAME=VALUE...]: writes build/PRESET unless it is there, newer than the presets
# and has these values.  (Changes of CMakeLists.txt are noticed by the build itself.)
configure() {
  local preset="$1" dir="$root/build/$1" setting stale=
  shift
  if [[ ! -f "$dir/build.ninja" || "$root/CMakePresets.json" -nt "$dir/build.ninja" ]]; then
    stale=1
  fi
  for setting in "$@"; do
    setting="${setting#-D}"
    grep -qsx -- "${setting%%=*}:[A-Z]*=${setting#*=}" "$dir/CMakeCache.txt" || stale=1
  done
  [[ -n "$stale" ]] || return 0
  say "Configuring build/$preset"
  mkdir -p "$dir"
  # Presets are looked up in the current directory.
  run_quietly "configuring" "$dir/configure.log" \
    env -C "$root" cmake --preset "$preset" "$@"
  touch -- "$dir/build.ninja"
}

# build PRESET [--target NAME]
build() {
  local preset="$1" dir="$root/build/$1"
  shift
  [[ -t 2 ]] || say "Building build/$preset"
  run_quietly "the build" "$dir/build.log" cmake --build "$dir" "$@"
}
