/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Compile-time checks of the uDAPL headers against the tables in tests/data/dat, as C and as C++ of
 * several standards. A failed assertion names its row.
 */
#ifdef COHERDMA_DAT1
#    include <dat/dat_registry.h>
#else
#    include <dat2/dat_ib_extensions.h>
#    include <dat2/dat_registry.h>
#endif
#include <stdarg.h>

#ifdef __cplusplus
#    include <type_traits>
#    include <utility>

constexpr bool is_same_text(const char *a, const char *b) {
    return *a == *b && (*a == '\0' || is_same_text(a + 1, b + 1));
}
#    define CHECK(condition, row) static_assert(condition, row)
#    define SIZE_OF(type, member) sizeof(std::declval<type &>().member)
#    define IS_TEXT(name, text) is_same_text(name, text)
#    define IS_TYPE(expression, ...) std::is_same<decltype(expression), __VA_ARGS__>::value
#    define IS_SAME(name, ...) std::is_same<name, __VA_ARGS__>::value
#    define MEMBER_OF_PROVIDER(member) DAT_PROVIDER::member
#else
#    define CHECK(condition, row) _Static_assert(condition, row)
#    define SIZE_OF(type, member) sizeof(((type *)0)->member)
#    define IS_TEXT(name, text) (sizeof(name) == sizeof(text))
#    define IS_TYPE(expression, ...) _Generic((expression), __VA_ARGS__ : 1, default : 0)
#    define IS_SAME(name, ...)                                                                     \
        1 /* checked in C++ only: _Generic cannot compare all of these types */
#    define MEMBER_OF_PROVIDER(member) ((DAT_PROVIDER *)0)->member
#endif
#define STRINGIZE_EXPANDED(...) #__VA_ARGS__
#define STRINGIZE(...) STRINGIZE_EXPANDED(__VA_ARGS__)

#define SIZE(type, size) CHECK(sizeof(type) == (size), #type " has " #size " bytes");
#define MEMBER(type, member, offset, size)                                                         \
    CHECK(offsetof(type, member) == (offset), #type "." #member " is at " #offset);                \
    CHECK(SIZE_OF(type, member) == (size), #type "." #member " has " #size " bytes");
#include "layout.inc"

#define NUMBER(name, value) CHECK((name) == (value), #name " is " #value);
#define MASK(name, value)                                                                          \
    NUMBER(name, value)                                                                            \
    CHECK(sizeof(name) == sizeof(DAT_UINT64), #name " has 64 bits");
#define TEXT(name, text) CHECK(IS_TEXT(name, text), #name " is " text);
#define SYMBOL(name, text) CHECK(IS_TEXT(STRINGIZE(name), text), #name " is " text);
#define POINTER(name, value) /* not a constant expression: see headers_test.cpp */
#ifdef __cplusplus
#    define ENUMERATOR(name, type) CHECK(IS_TYPE(name, type), #    name " is a " #    type);
#else
#    define ENUMERATOR(name, type) /* an int in C */
#endif
#define CHOSEN(name, ofed, solaris) CHOSEN_##name(ofed, solaris)
/* Only the type is compared: OFED's value includes the class bits. */
#define CHOSEN_DAT_NOT_IMPLEMENTED(ofed, solaris)                                                  \
    CHECK(DAT_GET_TYPE(UINT32_C(ofed)) == DAT_NOT_IMPLEMENTED, "what OFED's provider returns");    \
    CHECK(DAT_GET_TYPE(DAT_MAKE_ERROR(DAT_NOT_IMPLEMENTED, 0)) == DAT_NOT_IMPLEMENTED,             \
          "error type");
/* OFED's value. DAT_PZ_SAME exists on Solaris only, with OFED's value of DAT_PZ_SHAREABLE. */
#define CHOSEN_DAT_PZ_SHAREABLE(ofed, solaris) CHECK(DAT_PZ_SHAREABLE == (ofed), "OFED's value");
#define CHOSEN_DAT_PZ_SAME(ofed, solaris)                                                          \
    CHECK(DAT_PZ_SAME != DAT_PZ_UNIQUE && DAT_PZ_SAME != DAT_PZ_SHAREABLE, "all three differ");
#include "constants.inc"

#define TYPE(name, ...) CHECK(IS_SAME(name, __VA_ARGS__), #name " is " #__VA_ARGS__);
#include "types.inc"

#define FUNCTION(name, ...)                                                                        \
    CHECK(IS_TYPE(&name, DAT_RETURN (*)(__VA_ARGS__)), #name " takes " #__VA_ARGS__);
#define ENTRY(member, ...)                                                                         \
    CHECK(IS_TYPE(MEMBER_OF_PROVIDER(member), DAT_RETURN (*)(__VA_ARGS__)),                        \
          "DAT_PROVIDER." #member " takes " #__VA_ARGS__);
#include "functions.inc"
