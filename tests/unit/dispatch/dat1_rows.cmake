# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# cmake -D DATA=FOLDER -D OUT=FOLDER -P dat1_rows.cmake: writes the rows of DAT 1.2's tables as calls
# of macros that dispatch_layout_test defines. Fails on a row that it does not recognize.

cmake_minimum_required(VERSION 3.20)

function(refuse file line)
  message(FATAL_ERROR "${file}: not understood: ${line}")
endfunction()

file(STRINGS ${DATA}/dat12-layout.csv lines)
list(POP_FRONT lines)
set(text "")
foreach(line IN LISTS lines)
  if(line MATCHES "^([A-Z0-9_]+),\\(sizeof\\),,([0-9]+)$")
    string(APPEND text "SIZE(${CMAKE_MATCH_1}, ${CMAKE_MATCH_2})\n")
  elseif(line MATCHES "^([A-Z0-9_]+),([a-z0-9_]+),([0-9]+),([0-9]+)$")
    string(APPEND text
      "MEMBER(${CMAKE_MATCH_1}, ${CMAKE_MATCH_2}, ${CMAKE_MATCH_3}, ${CMAKE_MATCH_4})\n")
  else()
    refuse(dat12-layout.csv "${line}")
  endif()
endforeach()
file(WRITE ${OUT}/dat1_layout.inc "${text}")

# Names that 2.0 lacks, and addresses, which a constant expression cannot compare.
set(left_out DAT_VERSION_MAJOR DAT_VERSION_MINOR DAT_MEM_PRIV_RO_DISABLE_FLAG DAT_MEM_TYPE_SO_VIRTUAL
  DAT_PZ_SAME DAT_INVALID_RO_COOKIE DAT_CNO_FIELD_AGENT DAT_HANDLE_NULL DAT_EVD_ASYNC_EXISTS
  DAT_EVD_OUT_OF_SCOPE)
set(subtypes "^DAT_(RESOURCE|INVALID_HANDLE|INVALID_ARG|INVALID_STATE|INVALID_ADDRESS|PRIVILEGES|PROTECTION)"
  "_?[A-Z0-9]|^DAT_(NO_SUBTYPE|SUB_INTERRUPTED|NAME_NOT_REGISTERED|"
  "(MAJOR|MINOR|THREAD_SAFETY)_NOT_FOUND)$")
string(CONCAT subtypes ${subtypes})
file(STRINGS ${DATA}/dat12-constants.csv lines)
list(POP_FRONT lines)
set(text "")
foreach(line IN LISTS lines)
  # The second column is OFED's value, the third Solaris's.
  if(NOT line MATCHES "^([A-Z0-9_]+),(-?[0-9]*),(-?[0-9]+)$")
    refuse(dat12-constants.csv "${line}")
  endif()
  set(name ${CMAKE_MATCH_1})
  set(value ${CMAKE_MATCH_2})
  if(name IN_LIST left_out)
    continue()
  elseif(name STREQUAL DAT_NOT_IMPLEMENTED)
    set(macro NOT_IMPLEMENTED)
  elseif(name MATCHES "^DAT_(IA|EP|LMR|RMR|CNO|PROVIDER)(_FIELD)?_ALL$")
    set(macro ALL_${CMAKE_MATCH_1})
  elseif(name MATCHES "^DAT_(IA|EP|LMR|RMR|CNO|PROVIDER)_FIELD_")
    set(macro MASK_${CMAKE_MATCH_1})
  elseif(name MATCHES "^DAT_SRQ_STATE_")
    set(macro SRQ_STATE)
  elseif(name MATCHES "${subtypes}" AND value LESS 65536)
    set(macro SUBTYPE)
  else()
    set(macro SAME)
  endif()
  string(APPEND text "${macro}(${name}, ${value})\n")
endforeach()
file(WRITE ${OUT}/dat1_constants.inc "${text}")
