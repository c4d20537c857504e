# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What is installed. It is included after all targets are known.

install(PROGRAMS scripts/softrdma DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL)

install(DIRECTORY scripts/lab/ DESTINATION ${CMAKE_INSTALL_DATADIR}/softrdma/lab
        USE_SOURCE_PERMISSIONS OPTIONAL FILES_MATCHING
        PATTERN "__pycache__" EXCLUDE
        PATTERN "*.py"
        PATTERN "*.config"
        PATTERN "pinned_kernel"
        PATTERN "*.patch"
        REGEX "/guest/init$")

# systemd looks there whatever the architecture, in /usr and in /usr/local.
install(FILES scripts/boot/softrdma@.service DESTINATION lib/systemd/system)
install(PROGRAMS scripts/boot/softrdma-generator DESTINATION lib/systemd/system-generators)

# Manual pages. A page is installed under each of its names: under those that are not its file's, as
# a page that includes it.
file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/man/*/*.[1357])
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${pages})
foreach(page ${pages})
  cmake_path(GET page FILENAME file)
  string(REGEX REPLACE "^.*[.]" "" section ${file})
  file(READ ${page} text)
  if(NOT text MATCHES "\n[.]SH NAME\n([a-z0-9_., \n-]+) \\\\-")
    message(FATAL_ERROR "${page}: no NAME section")
  endif()
  string(REGEX MATCHALL "[^, \n]+" names ${CMAKE_MATCH_1})
  list(TRANSFORM names APPEND .${section})
  list(REMOVE_ITEM names ${file})
  list(TRANSFORM names PREPEND ${PROJECT_BINARY_DIR}/man/)
  foreach(alias ${names})
    file(CONFIGURE OUTPUT ${alias} CONTENT ".so man${section}/${file}\n" @ONLY)
  endforeach()
  install(FILES ${page} ${names} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()

install(FILES completions/coherdma completions/datinfo completions/datping completions/softrdma
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)

install(TARGETS coherdma EXPORT coherdmaTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ibverbs-glue/include/coherdma DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# Relative, so that it is right wherever the whole is moved to.
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" up ${up})
configure_file(cmake/coherdma.pc.in coherdma.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/coherdma.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/coherdma)
configure_package_config_file(cmake/coherdmaConfig.cmake.in coherdmaConfig.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(coherdmaConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/coherdmaConfig.cmake
              ${PROJECT_BINARY_DIR}/coherdmaConfigVersion.cmake DESTINATION ${package})
install(EXPORT coherdmaTargets NAMESPACE coherdma:: DESTINATION ${package})

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN *.md)
install(FILES containers/Containerfile examples/courier.c examples/logbook.c examples/mailbox.c
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(DIRECTORY LICENSES DESTINATION ${CMAKE_INSTALL_DOCDIR})
