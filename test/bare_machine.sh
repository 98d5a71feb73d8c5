#!/usr/bin/env bash
# The README's first two commands as on a new machine: a fresh clone of HEAD in a bare Debian (debootstrap and chroot),
# with an empty home, an empty compiler cache and nothing but what tools/scripts/setup.sh installs; then both once more,
# which builds nothing. Prints the four times. Fails where a command fails, or where the second round builds something or
# takes longer than half of the first.
#
#   test/bare_machine.sh [--load] [--here] [--keep] [FOLDER]
#
#   --load    with as many busy processes beside it as there are cores
#   --here    without a chroot: this machine's packages, but an empty environment, home and compiler cache
#   --keep    leave FOLDER (default: a new one where temporary files go), to look at
#
# Needs root and debootstrap; falls back to --here. The release, the package sources with their keys and certificates and
# the settings of apt and pip are this machine's.
set -uo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
load=no here=no keep=no inside=no folder=""
for option in "$@"; do
  case "$option" in
    --load) load=yes ;;
    --here) here=yes ;;
    --keep) keep=yes ;;
    --inside) inside=yes ;; # of this script, for itself
    -*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    *) folder="$option" ;;
  esac
done
say() { echo "bare_machine.sh: $*"; }

# The mounts below are the script's alone and end with it, before anything is removed.
if [ $inside = no ]; then
  if [ $here = no ] && { [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; }; then
    say "no root or no debootstrap: in this machine's system, as with --here"
    here=yes
  fi
  folder="${folder:-$(mktemp -d -t omnibal-bare-XXXXXX)}"
  mkdir -p "$folder" && folder="$(cd "$folder" && pwd)" || exit 1
  arguments=(--inside "$folder")
  [ $load = no ] || arguments+=(--load)
  if [ $here = yes ]; then
    bash "$0" --here "${arguments[@]}"
  else
    unshare --mount --propagation private bash "$0" "${arguments[@]}"
  fi
  code=$?
  if [ $keep = yes ] || [ $code != 0 ]; then
    say "left: $folder"
  else
    rm -rf --one-file-system "$folder"
  fi
  exit $code
fi

machine="$folder/machine" user="/user"
[ $here = no ] || { machine="$folder" user="$folder/user"; }

pip_settings=""
for place in "${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf" "$HOME/.pip/pip.conf"; do
  [ ! -e "$place" ] || pip_settings="$place"
done

# Binds a folder of this machine into the bare one, where it may be read only.
lend() {
  mkdir -p "$machine$1" && mount --bind "$1" "$machine$1" && mount -o remount,bind,ro "$machine$1"
}

# A bare system of this machine's release, which finds packages where this machine finds them.
make_machine() {
  local release mirror place
  release="$(. /etc/os-release && echo "$VERSION_CODENAME")"
  mirror="$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
    awk -v release="$release" '$2 == release { print $1; exit }')"
  [ -n "$mirror" ] || { say "apt knows no source of $release"; return 1; }
  say "bare $release in $machine"
  debootstrap --variant=minbase --include=ca-certificates,git "$release" "$machine" "$mirror" >"$folder/debootstrap.log" 2>&1 ||
    { tail -5 "$folder/debootstrap.log"; return 1; }
  rm -rf "$machine/etc/apt"
  cp -a /etc/apt "$machine/etc/"
  for place in /usr/share/keyrings /usr/local/share/ca-certificates; do
    [ ! -d $place ] || { mkdir -p "$machine$place" && cp -rL --remove-destination $place/. "$machine$place/"; }
  done
  for place in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
    [ ! -e $place ] || cp -L --remove-destination $place "$machine$place"
  done
  [ -z "$pip_settings" ] || { cp -L "$pip_settings" "$machine/etc/pip-user.conf" && pip_settings=/etc/pip-user.conf; }
  mount -t proc proc "$machine/proc" && mount --rbind /dev "$machine/dev" && mount --rbind /sys "$machine/sys" || return 1
  # Folders of packages that pip is told to look into; the pages of an index lie beside the files.
  cat /etc/pip.conf "$machine/etc/pip-user.conf" <(env | grep '^PIP_') 2>/dev/null | grep -oE '(file://|= *|[[:space:]])/[^ ,]+' |
    sed -E 's#^[^/]*(//)?/#/#; s#/simple/?$##' | sort -u | while read -r place; do
    [ ! -d "$place" ] || [ -d "$machine$place" ] || lend "$place"
  done
}

# Runs a command line in the clone, with an environment of its own but for where pip and TLS find what they need.
as_user() {
  local variables=(HOME="$user" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
    TERM=dumb PYTHONNOUSERSITE=1 CCACHE_DIR="$user/ccache") line
  while IFS= read -r line; do
    variables+=("$line")
  done < <(env | grep -iE '^(PIP_|https?_proxy=|no_proxy=|SSL_CERT_|REQUESTS_CA_BUNDLE=)')
  [ -z "$pip_settings" ] || variables+=(PIP_CONFIG_FILE="$pip_settings")
  if [ $here = yes ]; then
    env -i "${variables[@]}" bash -c "cd '$user/omnibal' && $1"
  else
    chroot "$machine" /usr/bin/env -i "${variables[@]}" bash -c "cd '$user/omnibal' && $1"
  fi
}

if [ $here = no ]; then
  make_machine || exit 1
  mkdir -p "$machine$user"
  clone="$machine$user/omnibal"
else
  mkdir -p "$user"
  clone="$user/omnibal"
fi
git clone --quiet --no-hardlinks "$root" "$clone" || exit 1
chown -R "$(id -u):$(id -g)" "$clone"
say "a clone of $(git -C "$clone" rev-parse --short HEAD), $(nproc) cores$([ $load = no ] || echo ', all busy')"

busy=()
trap '[ ${#busy[@]} = 0 ] || kill "${busy[@]}"' EXIT
if [ $load = yes ]; then
  for _ in $(seq "$(nproc)"); do
    bash -c 'while :; do :; done' &
    busy+=($!)
  done
fi

failed=0 seconds=()
for round in 1 2; do
  for command in examples/quickstart/run.sh test/run_tests.sh; do
    log="$folder/$(basename $command .sh)-$round.log"
    began=$(date +%s)
    as_user $command >"$log" 2>&1
    code=$?
    seconds+=($(($(date +%s) - began)))
    say "$command, round $round: $((seconds[-1] / 60)) min $((seconds[-1] % 60)) s, exit $code"
    [ $command != test/run_tests.sh ] || tail -2 "$log"
    [ $code = 0 ] || { failed=1; [ $command = test/run_tests.sh ] || tail -20 "$log"; }
    if [ $round = 2 ] && ! grep -q "ninja: no work to do" "$log"; then
      say "$command builds something in its second round"
      failed=1
    fi
  done
done
if [ $((2 * (seconds[2] + seconds[3]))) -gt $((seconds[0] + seconds[1])) ]; then
  say "the second round takes longer than half of the first"
  failed=1
fi
[ $failed = 0 ] && say "passed" || say "failed; the logs are in $folder"
exit $failed
