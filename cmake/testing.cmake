# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# How tests are registered with CTest. Each runs below tests/run_test.py, which shows every test case,
# enforces the time limit and ends what a test leaves behind. tests/README.md has the labels.

set(COHERDMA_RUN_TEST /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/run_test.py)

# coherdma_test(NAME KIND ARGUMENT...
#               [LABELS label...] [TIMEOUT seconds] [PROCESSORS n] [COST seconds] [ENV NAME=VALUE...]
#               [LAB option...] [SETUP fixture] [NEEDS fixture...] [LOCK resource] [DEPENDS test...]
#               [ELSEWHERE])
#
# KIND: cmocka (a program), bats (files), tap (a command that writes TAP) or command (its exit status
# is the result). LAB: the test runs in a guest, by these options of softrdma run. ELSEWHERE: as another
# user, in another folder and language (tests/elsewhere). SETUP: the test makes something once that others
# NEED. COST: how long it takes, so that long tests begin first.
# LABELS are the area and the kind. A test that runs in a guest also has the label lab, one that
# tests/gate.txt names the label gate, and every other that of its suite, by tests/suites.txt. No more than
# two tests with guests run at a time.

set(gate_file ${PROJECT_SOURCE_DIR}/tests/gate.txt)
set(suites_file ${PROJECT_SOURCE_DIR}/tests/suites.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${gate_file} ${suites_file})
file(STRINGS ${gate_file} gate_patterns REGEX "^[^#]")
file(STRINGS ${suites_file} suite_lines REGEX "^[^#]")

# set_suite(NAME VARIABLE): the label of the suite that the test is in, or an error.
function(set_suite name variable)
  foreach(line IN LISTS suite_lines)
    string(REGEX MATCH "^([^ ]+) +(.+)$" line "${line}")
    set(suite ${CMAKE_MATCH_1})
    if(name MATCHES "^(${CMAKE_MATCH_2})$")
      set(${variable} suite:${suite} PARENT_SCOPE)
      set_property(GLOBAL APPEND PROPERTY COHERDMA_SUITES ${suite})
      return()
    endif()
  endforeach()
  message(SEND_ERROR "${suites_file}: no suite has the test ${name}, and it is not in the gate")
endfunction()

function(coherdma_test name kind)
  cmake_parse_arguments(PARSE_ARGV 2 test "ELSEWHERE" "TIMEOUT;PROCESSORS;COST;SETUP;LOCK"
    "LABELS;ENV;LAB;NEEDS;DEPENDS")
  if(NOT test_TIMEOUT)
    set(test_TIMEOUT 2400) # ends a hang; a busy machine takes many times what an idle one takes
  endif()
  set(arguments "")
  foreach(argument IN LISTS test_UNPARSED_ARGUMENTS)
    if(argument MATCHES "\\.bats$")
      file(REAL_PATH ${argument} argument)
      file(RELATIVE_PATH argument ${PROJECT_SOURCE_DIR} ${argument})
    endif()
    list(APPEND arguments ${argument})
  endforeach()
  set(lab "")
  if(DEFINED test_LAB)
    string(JOIN " " test_LAB ${test_LAB})
    set(lab "--lab=${test_LAB}")
    if(NOT test_LAB MATCHES "--in ")
      list(APPEND test_NEEDS uml)
    endif()
    list(APPEND test_LABELS lab)
  elseif("uml" IN_LIST test_NEEDS OR "debian_kernel" IN_LIST test_NEEDS)
    list(APPEND test_LABELS lab)
  endif()
  foreach(pattern IN LISTS gate_patterns)
    if(name MATCHES "^${pattern}$")
      list(APPEND test_LABELS gate)
      set_property(GLOBAL APPEND PROPERTY COHERDMA_GATE_PATTERNS "${pattern}")
      break()
    endif()
  endforeach()
  if(NOT "gate" IN_LIST test_LABELS)
    set_suite(${name} suite)
    list(APPEND test_LABELS ${suite})
  endif()
  list(REMOVE_DUPLICATES test_LABELS)
  set(setup "")
  if(test_SETUP)
    set(setup --setup)
  endif()
  set(elsewhere "")
  if(test_ELSEWHERE)
    set(elsewhere --elsewhere)
  endif()
  add_test(NAME ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    COMMAND ${COHERDMA_RUN_TEST} --timeout ${test_TIMEOUT} ${setup} ${elsewhere} ${lab}
            ${name} ${kind} ${arguments})
  # run_test.py ends a test that takes too long, and says what it waited for; CTest, run_test.py.
  math(EXPR limit "${test_TIMEOUT} + 30")
  set_tests_properties(${name} PROPERTIES
    ENVIRONMENT "BUILD=${PROJECT_BINARY_DIR};${test_ENV}"
    LABELS "${test_LABELS}" SKIP_RETURN_CODE 77 TIMEOUT ${limit})
  if("lab" IN_LIST test_LABELS)
    set_tests_properties(${name} PROPERTIES RESOURCE_GROUPS guests:1) # tests/resources.json
  endif()
  foreach(mapping PROCESSORS:PROCESSORS COST:COST SETUP:FIXTURES_SETUP NEEDS:FIXTURES_REQUIRED
                  LOCK:RESOURCE_LOCK DEPENDS:DEPENDS)
    string(REPLACE ":" ";" mapping ${mapping})
    list(GET mapping 0 option)
    list(GET mapping 1 property)
    if(test_${option})
      set_tests_properties(${name} PROPERTIES ${property} "${test_${option}}")
    endif()
  endforeach()
endfunction()

# check_gate(): each line of tests/gate.txt names a test, and each suite has one.
function(check_gate)
  get_property(suites GLOBAL PROPERTY COHERDMA_SUITES)
  foreach(line IN LISTS suite_lines)
    string(REGEX REPLACE " .*" "" suite ${line})
    if(NOT suite IN_LIST suites)
      message(SEND_ERROR "${suites_file}: no test is in the suite ${suite}")
    endif()
  endforeach()
  get_property(matched GLOBAL PROPERTY COHERDMA_GATE_PATTERNS)
  foreach(pattern IN LISTS gate_patterns)
    if(NOT pattern IN_LIST matched)
      message(SEND_ERROR "${gate_file}: no test is named ${pattern}")
    endif()
  endforeach()
endfunction()

# unit_test(AREA NAME [PLUGIN] [AS_ROOT] [SOURCE...] LINKS library...): the program AREA_NAME_test of
# NAME_test.cpp, or of the first SOURCE if that ends in _test.cpp. It also runs under ASan and UBSan, TSan and
# valgrind (tests/unit/sanitizers.cmake), unless it loads the PLUGIN, which trees with sanitizers do not have.
# Tests run in the source folder, so that data are in tests/data; they may not write to it. AS_ROOT: a case
# needs root, so that the program is also run as the caller.
function(unit_test area name)
  cmake_parse_arguments(PARSE_ARGV 2 test "PLUGIN;AS_ROOT" "" "LINKS;LABELS")
  set(sources ${test_UNPARSED_ARGUMENTS})
  if(NOT sources MATCHES "^[a-z0-9_/.]*_test\\.cpp")
    list(PREPEND sources ${name}_test.cpp)
  endif()
  set(program ${area}_${name}_test)
  add_executable(${program} ${sources})
  target_link_libraries(${program} PRIVATE coherdma_flags ${test_LINKS} PkgConfig::cmocka)
  coherdma_test(unit.${area}.${name} cmocka $<TARGET_FILE:${program}> ELSEWHERE
    LABELS unit package_build ${test_LABELS})
  if(test_AS_ROOT)
    coherdma_test(unit.${area}.${name}.as_root cmocka $<TARGET_FILE:${program}> LABELS unit ${test_LABELS})
  endif()
  file(RELATIVE_PATH folder ${PROJECT_BINARY_DIR} ${CMAKE_CURRENT_BINARY_DIR})
  set_property(GLOBAL APPEND PROPERTY COHERDMA_UNIT_TESTS ${area}.${name}:${folder}/${program})
  if(test_PLUGIN)
    set_property(GLOBAL APPEND PROPERTY COHERDMA_PLUGIN_TESTS ${area}.${name})
  endif()
endfunction()
