# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The headers of the standard library, compiled once: most files of tests take longer to parse them than
# their own code. A file still includes what it uses: the presets debug and tsan compile without
# (CMAKE_DISABLE_PRECOMPILE_HEADERS).

# gcc takes a compiled header only if the options are the same, so libraries (-fPIC) and programs (-fPIE)
# have one each.
file(CONFIGURE OUTPUT precompiled.cpp CONTENT "int main() { return 0; }\n")
add_library(tests_library_headers OBJECT ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp)
add_executable(tests_program_headers ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp)
foreach(target tests_library_headers tests_program_headers)
  target_link_libraries(${target} PRIVATE coherdma_flags)
  target_precompile_headers(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:${CMAKE_CURRENT_SOURCE_DIR}/precompiled.hpp>)
endforeach()

# use_precompiled_headers(FOLDER): for all targets of the folder and those below it that are C++ and have the
# common options.
function(use_precompiled_headers folder)
  get_target_property(common_options tests_program_headers COMPILE_OPTIONS)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(options ${target} COMPILE_OPTIONS)
    get_target_property(standard ${target} CXX_STANDARD)
    get_target_property(sources ${target} SOURCES)
    get_target_property(libraries ${target} LINK_LIBRARIES)
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU) # which takes them for these objects, too; clang does not
      list(REMOVE_ITEM options -fvisibility=hidden)
    endif()
    if(options STREQUAL common_options AND standard EQUAL CMAKE_CXX_STANDARD
       AND "coherdma_flags" IN_LIST libraries AND NOT sources MATCHES "\\.c(;|$)")
      if(type STREQUAL EXECUTABLE)
        target_precompile_headers(${target} REUSE_FROM tests_program_headers)
      else()
        target_precompile_headers(${target} REUSE_FROM tests_library_headers)
      endif()
    endif()
  endforeach()
  get_property(subfolders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(subfolder IN LISTS subfolders)
    use_precompiled_headers(${subfolder})
  endforeach()
endfunction()
