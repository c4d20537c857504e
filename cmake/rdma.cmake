# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Imported targets PkgConfig::ibverbs, PkgConfig::rdmacm and PkgConfig::nl3, or a message that says what to install.

find_package(PkgConfig REQUIRED)

foreach(lib ibverbs rdmacm)
  pkg_check_modules(${lib} QUIET IMPORTED_TARGET lib${lib})
  if(NOT ${lib}_FOUND)
    message(FATAL_ERROR "lib${lib} was not found. On Debian and Ubuntu: apt-get install lib${lib}-dev "
                        "(Fedora: dnf install rdma-core-devel)")
  endif()
endforeach()

pkg_check_modules(nl3 QUIET IMPORTED_TARGET libnl-3.0)
if(NOT nl3_FOUND)
  message(FATAL_ERROR "libnl-3 was not found. On Debian and Ubuntu: apt-get install libnl-3-dev "
                      "(Fedora: dnf install libnl3-devel)")
endif()
