#!/bin/sh
# SPDX-License-Identifier: MIT
# Compiles libcoll/op and the trainer's kernels for 64-bit Arm and runs their
# claims under qemu, so that the NEON kernels are tested on any machine:
#   neon_cross.sh KERNEL.c... --bf16 KERNEL.c...
# with the lists that meson.build compiles for each instruction set. Debian
# packages:
#   gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
# Convolutions in plain C are tested by conv_test on the machine itself.
set -eu
cd "$(dirname "$0")/.."
cc=${CROSS_CC:-aarch64-linux-gnu-gcc}
for tool in "$cc" qemu-aarch64; do
    command -v "$tool" > /dev/null || {
        echo "1..0 # SKIP $tool is not installed"
        exit 77
    }
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
compile() {
    "$cc" -std=c17 -D_GNU_SOURCE -O2 -ffp-contract=off -Wall -Wextra \
        -Wpedantic -Werror -Iinclude -Ilibcoll -Itrainer -Itests "$@"
}
# As meson.build does: the kernels once for each instruction set.
compile -c -DOP_ISA=neon -DVECTOR_BYTES=16 -o "$dir/neon.o" libcoll/op/combine.c
# What only stands beside them need not be fast.
compile -c -O1 -DOP_ISA=scalar -DVECTOR_BYTES=8 -o "$dir/scalar.o" \
    libcoll/op/combine.c
compile -static -o "$dir/op_cross" tests/op_cross.c tests/op_checks.c tests/op_oracle.c \
    libcoll/op/op.c libcoll/op/names.c "$dir/neon.o" "$dir/scalar.o" -lm
for isa in neon:32:-O2 scalar:16:-O1; do
    level=${isa##*:}
    isa=${isa%:*}
    kernel() {
        source=$1
        shift
        compile -c "$level" -ffp-contract=fast -DCONV_ISA="${isa%:*}" -DCONV_LANES=4 \
            -DCONV_REGISTERS="${isa#*:}" "$@" "$source" \
            -o "$(mktemp "$dir/${isa%:*}-XXXXXX.o")"
    }
    type=
    for file in "$@"; do
        case $file in
        --bf16) type=-DCONV_BF16 ;;
        *) kernel "$file" $type ;;
        esac
    done
    for wide in 5 6 8; do
        kernel trainer/kernels/conv_winograd_tile.c -DWINOGRAD_WIDE="$wide"
    done
done
compile -static -o "$dir/conv_test" tests/conv_test.c tests/conv_kit.c \
    tests/conv_parts.c trainer/kernels/conv.c \
    trainer/kernels/conv_bands.c trainer/kernels/conv_bf16.c trainer/kernels/conv_direct.c \
    trainer/kernels/conv_direct_weights.c trainer/kernels/conv_pack.c trainer/kernels/conv_size.c \
    trainer/kernels/conv_strassen.c \
    trainer/kernels/conv_strassen_weights.c \
    trainer/kernels/conv_view.c trainer/kernels/conv_winograd.c \
    trainer/kernels/conv_wide_copy.c trainer/kernels/conv_wide_pack.c \
    trainer/kernels/conv_wide_weights.c \
    trainer/kernels/conv_winograd_places.c trainer/kernels/conv_winograd_weights.c \
    "$dir"/neon-*.o "$dir"/scalar-*.o -lm
compile -static -o "$dir/lanes_cross" tests/lanes_cross.c trainer/kernels/conv.c \
    "$dir"/neon-*.o "$dir"/scalar-*.o -lm
# Ten layers have three times the products of all others together, and what their many
# channels do is above the kernels.
qemu-aarch64 "$dir/op_cross" && qemu-aarch64 "$dir/conv_test" 12 neon 5e6 \
    && qemu-aarch64 "$dir/lanes_cross"
