# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# To build for arm64 on another machine: cmake --toolchain cmake/arm64.cmake, with ARM64_ROOT in the
# environment: a folder with the libraries and headers of a Debian for arm64, unpacked.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(libraries $ENV{ARM64_ROOT}/usr/lib/aarch64-linux-gnu)
set(others $ENV{ARM64_ROOT}/lib/aarch64-linux-gnu)
set(CMAKE_EXE_LINKER_FLAGS_INIT -Wl,-rpath-link,${libraries}:${others})
set(CMAKE_SHARED_LINKER_FLAGS_INIT -Wl,-rpath-link,${libraries}:${others})

set(CMAKE_FIND_ROOT_PATH $ENV{ARM64_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} $ENV{ARM64_ROOT})
set(ENV{PKG_CONFIG_LIBDIR}
    ${libraries}/pkgconfig:$ENV{ARM64_ROOT}/usr/share/pkgconfig)
