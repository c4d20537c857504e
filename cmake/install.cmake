# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What is installed without being compiled.

install(PROGRAMS scripts/softrdma DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL)

install(DIRECTORY scripts/lab/ DESTINATION ${CMAKE_INSTALL_DATADIR}/softrdma/lab
        USE_SOURCE_PERMISSIONS OPTIONAL FILES_MATCHING
        PATTERN "__pycache__" EXCLUDE
        PATTERN "*.py"
        REGEX "/guest/[^/]+$")

file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/man/*.1)
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY LICENSES DESTINATION ${CMAKE_INSTALL_DOCDIR})
