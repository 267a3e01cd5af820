#!/bin/bash
# Performs the Dockerfiles of this folder in chroots of one Debian folder, as root, without docker:
#
#   docker/try.sh build ROOT FOLDER [DOCKERFILE]   makes FOLDER/STAGE for each stage
#   docker/try.sh run FOLDER/STAGE [ARGUMENT...]   runs its entry point, confined as README.md says
#
# ROOT is made with `debootstrap --variant=minbase trixie ROOT` and stands in for debian:trixie-slim.
# For the rust image, a copy of it gets gcc and this machine's Rust toolchain and crates.
# A variable with the name of an ARG sets it. TRY_CA names a bundle of certificates that the steps trust, for networks behind a proxy.
# TRY_MOUNTS of `run` is a list of `HOST:INSIDE`, writable; the rest of the root is read-only.
# Steps are read with the few forms that the Dockerfiles use; anything else stops the script.
# shellcheck disable=SC2016  # the quoted scripts expand in the shells that run them
set -euo pipefail
here=$(dirname "$(realpath "$0")")
debian_path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

die() { echo "try.sh: $*" >&2; exit 1; }

# One instruction a line: comments go, continued lines are joined.
instructions() {
    sed -e '/^[[:space:]]*#/d' -e '/^[[:space:]]*$/d' "$1" \
        | sed -e ':more' -e '/\\$/{N;s/\\\n[[:space:]]*/ /;b more' -e '}'
}

# Replaces ${NAME} by the argument or variable of the build.
expanded() {
    local text=$1 name
    for name in "${!args[@]}"; do text=${text//"\${$name}"/${args[$name]}}; done
    printf '%s' "$text"
}

# Runs a command in a root of its own, as a user, with the variables of the stage.
inside() {
    local root=$1 user=$2 folder=$3 command=$4
    [[ $user == root ]] && user=0:0
    unshare --mount --pid --fork bash -euc '
        root=$1; folder=$2; user=$3; command=$4; shift 4
        mount --make-rprivate /
        mount --bind "$root" "$root"
        mount -t proc proc "$root/proc"
        mount -t tmpfs tmpfs "$root/dev"
        for name in null zero full random urandom; do
            touch "$root/dev/$name"; mount --bind "/dev/$name" "$root/dev/$name"
        done
        mount -t tmpfs tmpfs "$root/tmp"
        chmod 1777 "$root/tmp"
        cd /
        exec env -i "$@" chroot "$root" setpriv --reuid "${user%:*}" --regid "${user#*:}" \
            --clear-groups /bin/sh -c "cd $folder && $command"
    ' try "$root" "$folder" "$user" "$command" "${variables[@]}"
}

base() {
    local image=$1 root=$2
    if [[ -d $out/$image ]]; then cp -a "$out/$image" "$root"; return; fi
    case $image in
        debian:trixie-slim) cp -a "$debian" "$root" ;;
        rust:*-slim-trixie)
            cp -a "$debian" "$root"
            local toolchain home=${CARGO_HOME:-$HOME/.cargo}
            toolchain=$(rustc --print sysroot)
            mkdir -p "$root/usr/local/rust" "$root/usr/local/cargo"
            cp -a "$toolchain/." "$root/usr/local/rust/"
            rm -rf "$root/usr/local/rust/share/doc"
            cp -a "$home/registry" "$root/usr/local/cargo/"
            variables=("PATH=$path" "${trusted[@]}")
            prepare "$root"
            inside "$root" root / 'apt-get -qq update && apt-get -qq install --yes \
                --no-install-recommends gcc libc6-dev ca-certificates >/dev/null' ;;
        warpwright:*) cp -a "$out/complete" "$root" ;;
        *) die "no stand-in for the image $image" ;;
    esac
}

prepare() {
    cp /etc/resolv.conf "$1/etc/resolv.conf"
    if [[ -n ${TRY_CA:-} ]]; then cp "$TRY_CA" "$1/etc/try-ca.crt"; fi
}

copy() {
    local from=$context; local -a words
    read -ra words <<<"$1"
    if [[ ${words[0]} == --from=* ]]; then
        from=$out/${words[0]#--from=}
        words=("${words[@]:1}")
        [[ -d $from ]] || die "COPY from a stage that is not there: $from"
    fi
    local to=${words[-1]}; unset 'words[-1]'
    [[ $to == /* ]] || to=$folder/$to
    for word in "${words[@]}"; do
        [[ $from != "$context" ]] || grep -qxF "!$word" "$context/.dockerignore" \
            || die "COPY $word: .dockerignore keeps it out"
        local source=$from/${word#/}
        if [[ -d $source ]]; then
            mkdir -p "$root$to"; cp -r --preserve=mode,links "$source/." "$root$to/"
        elif [[ $to == */ || $to == */. ]]; then
            mkdir -p "$root$to"; cp --preserve=mode "$source" "$root$to"
        else
            mkdir -p "$(dirname "$root$to")"; cp --preserve=mode "$source" "$root$to"
        fi
    done
}

# What a stage hands to the stages and containers made from it.
keep_stage() {
    if [[ -n $stage ]]; then
        printf '%s\n' "${settings[@]}" | sed '/^$/d' >"$out/$stage.env"
        printf '%s\n' "$user" "$folder" "$entry" "$command" >"$out/$stage.config"
    fi
}

from() {
    [[ $1 =~ ^([^ ]+)\ AS\ ([a-z]+)$ ]] || die "a stage needs a name: FROM $1"
    keep_stage
    local image=${BASH_REMATCH[1]}
    stage=${BASH_REMATCH[2]} user=root folder=/ entry='[]' command='[]' settings=()
    root=$out/$stage
    echo "== $stage from $image"
    rm -rf "$root"
    base "$image" "$root"
    [[ $image != warpwright:* ]] || image=complete
    if [[ -f $out/$image.env ]]; then
        mapfile -t settings <"$out/$image.env"
        { read -r user; read -r folder; read -r entry; read -r command; } <"$out/$image.config"
    fi
    prepare "$root"
}

build() {
    debian=$(realpath "$1") context=$(dirname "$here")
    mkdir -p "$2"; out=$(realpath "$2")
    path=/usr/local/cargo/bin:/usr/local/rust/bin:$debian_path
    trusted=() stage='' settings=()
    declare -gA args=()
    if [[ -n ${TRY_CA:-} ]]; then
        trusted=(PIP_CERT=/etc/try-ca.crt SSL_CERT_FILE=/etc/try-ca.crt)
    fi
    while read -r word rest; do
        rest=$(expanded "$rest")
        case $word in
            ARG) name=${rest%%=*}; args[$name]=${!name:-${rest#*=}} ;;
            FROM) from "$rest" ;;
            ENV) read -ra words <<<"$rest"; settings+=("${words[@]}") ;;
            WORKDIR) folder=$rest; mkdir -p "$root$folder" ;;
            USER) user=$rest ;;
            COPY) copy "$rest" ;;
            RUN)
                echo "-- RUN $rest"
                variables=("PATH=$path" CARGO_HOME=/usr/local/cargo "${trusted[@]}" "${settings[@]}")
                inside "$root" "$user" "$folder" "$rest" ;;
            VOLUME | HEALTHCHECK) ;;
            ENTRYPOINT) entry=$rest command='[]' ;;
            CMD) command=$rest ;;
            *) die "an instruction that this script does not know: $word $rest" ;;
        esac
    done < <(instructions "$3")
    keep_stage
}

# The words of a JSON list of plain strings.
listed() { tr -d '[]",' <<<"$1"; }

run() {
    local root user folder entry command
    root=$(realpath "$1"); shift
    { read -r user; read -r folder; read -r entry; read -r command; } <"$root.config"
    mapfile -t settings <"$root.env"
    if (($# == 0)); then read -ra words <<<"$(listed "$command")"; set -- "${words[@]}"; fi
    read -ra words <<<"$(listed "$entry")"
    # As --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges --network none.
    exec unshare --mount --pid --net --ipc --uts --fork bash -euc '
        root=$1; folder=$2; user=$3; mounts=$4; shift 4
        mount --make-rprivate /
        mount --bind "$root" "$root"
        mount -t proc proc "$root/proc"
        mount -t tmpfs -o nosuid,noexec tmpfs "$root/dev"
        for name in null zero full random urandom; do
            touch "$root/dev/$name"; mount --bind "/dev/$name" "$root/dev/$name"
        done
        mount -t tmpfs -o mode=1777,nosuid,nodev,noexec tmpfs "$root/tmp"
        mount -t tmpfs -o uid="${user%:*}",gid="${user#*:}" tmpfs "$root/data"
        for pair in $mounts; do mkdir -p "$root${pair#*:}"; mount --bind "${pair%%:*}" "$root${pair#*:}"; done
        mount -o remount,bind,ro "$root"
        cd /
        variables=(); while [[ $1 != -- ]]; do variables+=("$1"); shift; done; shift
        exec env -i "${variables[@]}" chroot "$root" setpriv --reuid "${user%:*}" \
            --regid "${user#*:}" --clear-groups --no-new-privs --bounding-set=-all \
            --inh-caps=-all --ambient-caps=-all /bin/sh -c "cd $folder && exec \"\$@\"" sh "$@"
    ' try "$root" "$folder" "$user" "${TRY_MOUNTS:-}" "PATH=$debian_path" \
        "${settings[@]}" -- "${words[@]}" "$@"
}

case ${1:-} in
    build) build "$2" "$3" "${4:-$here/Dockerfile}" ;;
    run) shift; run "$@" ;;
    *) die "build ROOT FOLDER [DOCKERFILE], or run FOLDER/STAGE [ARGUMENT...]" ;;
esac
