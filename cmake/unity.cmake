# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Most files of ours are small, and take longer to parse their headers than their code: compiled 16
# at a time, they take a third of the time. COHERDMA_UNITY=OFF compiles each by itself, which finds a
# file that lacks an include, and compiles less after a change; the presets debug and tsan do so.

option(COHERDMA_UNITY "Compile the files of a library together" ON)
if(COHERDMA_UNITY)
  # Clang's -Wshadow reports names of the other files.
  target_compile_options(coherdma_flags INTERFACE "$<$<CXX_COMPILER_ID:Clang>:-Wno-shadow>")
endif()

# unity(TARGET [ALONE file...]): compile the files of TARGET together, but for those whose names in
# unnamed namespaces others have too.
function(unity target)
  cmake_parse_arguments(PARSE_ARGV 1 unity "" "" "ALONE")
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${COHERDMA_UNITY} UNITY_BUILD_BATCH_SIZE 16)
  set_source_files_properties(${unity_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
