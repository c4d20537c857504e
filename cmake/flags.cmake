# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdma_flags: what every one of our targets is compiled and linked with. Link it PRIVATE, so
# that nothing of it reaches the programs of those who use our libraries.
#
# COHERDMA_SANITIZE is a comma list as in -fsanitize=; the presets asan and tsan set it.

set(COHERDMA_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize= (address,undefined or thread)")
option(COHERDMA_WERROR "Treat warnings as errors" ON)

include(CheckCompilerFlag)
include(CheckPIESupported)
check_pie_supported()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_library(coherdma_flags INTERFACE)

target_compile_options(coherdma_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wcast-align -Wcast-qual
  -Wformat=2 -Wundef -Wvla -Wnull-dereference -Wimplicit-fallthrough -Wdouble-promotion
  "$<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes;-Wmissing-prototypes>"
  "$<$<COMPILE_LANGUAGE:CXX>:-Wold-style-cast;-Wnon-virtual-dtor;-Woverloaded-virtual>"
  "$<$<BOOL:${COHERDMA_WERROR}>:-Werror>"
  -fstack-protector-strong)

# Not every CPU has these, and clang only warns about one it ignores: ask with -Werror.
foreach(flag -fstack-clash-protection -fcf-protection -mbranch-protection=standard)
  string(MAKE_C_IDENTIFIER has${flag} has)
  check_compiler_flag(CXX "-Werror ${flag}" ${has})
  if(${has})
    target_compile_options(coherdma_flags INTERFACE ${flag})
  endif()
endforeach()

target_link_options(coherdma_flags INTERFACE
  -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,--as-needed)

if(COHERDMA_SANITIZE)
  target_compile_options(coherdma_flags INTERFACE
    -fsanitize=${COHERDMA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(coherdma_flags INTERFACE -fsanitize=${COHERDMA_SANITIZE})
  # What compilers say of it themselves differs.
  if(COHERDMA_SANITIZE MATCHES address)
    target_compile_definitions(coherdma_flags INTERFACE COHERDMA_ASAN)
  elseif(COHERDMA_SANITIZE MATCHES thread)
    target_compile_definitions(coherdma_flags INTERFACE COHERDMA_TSAN)
  endif()
  # In a library of its own, as gcc's is: clang's would be in programs only, and libraries would
  # have names that no library defines.
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang AND COHERDMA_SANITIZE MATCHES address)
    execute_process(
      COMMAND ${CMAKE_CXX_COMPILER}
              -print-file-name=libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so
      OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
    get_filename_component(runtime ${runtime} DIRECTORY)
    target_link_options(coherdma_flags INTERFACE -shared-libsan -Wl,-rpath,${runtime})
  endif()
else()
  # Needs optimisation, and hides accesses from the sanitizers. Undefined first, because some
  # distributions' compilers set a value of their own.
  target_compile_options(coherdma_flags INTERFACE
    "$<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
endif()
