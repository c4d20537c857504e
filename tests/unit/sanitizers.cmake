# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The unit tests once more: under ASan and UBSan, under TSan, and under valgrind. The trees with
# sanitizers lie in this build folder; the programs have the same names there.

get_property(programs GLOBAL PROPERTY COHERDMA_UNIT_TESTS)
get_property(plugin_tests GLOBAL PROPERTY COHERDMA_PLUGIN_TESTS)

# sanitized_tree(NAME CMAKE option...): build it, as a fixture of this name.
function(sanitized_tree name)
  cmake_parse_arguments(PARSE_ARGV 1 tree "" "" "CMAKE")
  coherdma_test(build.${name} command ${PROJECT_SOURCE_DIR}/tests/build_tree ${name} ${tree_CMAKE}
    SETUP ${name} LABELS sanitize PROCESSORS 2 COST 500)
  foreach(program IN LISTS programs)
    string(REGEX REPLACE ":.*" "" test ${program})
    string(REGEX REPLACE ".*:" "" file ${program})
    if(NOT test IN_LIST plugin_tests)
      coherdma_test(${name}.unit.${test} cmocka ${PROJECT_BINARY_DIR}/${name}/${file}
        NEEDS ${name} LABELS sanitize)
    endif()
  endforeach()
endfunction()
# By clang, which has warnings of its own.
sanitized_tree(asan CMAKE -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++)
sanitized_tree(tsan)

# evict_test is not among them: valgrind has no cache to evict from. Nor is x86_64_instructions_test,
# which would see valgrind's instructions.
foreach(program IN LISTS programs)
  string(REGEX REPLACE ":.*" "" test ${program})
  string(REGEX REPLACE ".*:" "" file ${program})
  if(NOT test MATCHES "^cache\\.(evict|x86_64_instructions)$")
    coherdma_test(valgrind.unit.${test} cmocka ${CMAKE_CURRENT_SOURCE_DIR}/valgrind
      ${PROJECT_BINARY_DIR}/${file} LABELS sanitize)
  endif()
endforeach()
