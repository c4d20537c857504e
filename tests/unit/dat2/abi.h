/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The rows of tests/data/dat against the headers of uDAPL, while this is compiled: as C and as C++
 * of several years. What fails names its row.
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

constexpr bool same_text(const char *one, const char *other) {
    return *one == *other && (*one == '\0' || same_text(one + 1, other + 1));
}
#    define IS(truth, row) static_assert(truth, row)
#    define SIZE_OF(type, member) sizeof(std::declval<type &>().member)
#    define IS_TEXT(name, text) same_text(name, text)
#    define IS_TYPE(thing, ...) std::is_same<decltype(thing), __VA_ARGS__>::value
#    define IS_SAME(name, ...) std::is_same<name, __VA_ARGS__>::value
#    define MEMBER_OF_PROVIDER(member) DAT_PROVIDER::member
#else
#    define IS(truth, row) _Static_assert(truth, row)
#    define SIZE_OF(type, member) sizeof(((type *)0)->member)
#    define IS_TEXT(name, text) (sizeof(name) == sizeof(text))
#    define IS_TYPE(thing, ...) _Generic((thing), __VA_ARGS__ : 1, default : 0)
#    define IS_SAME(name, ...) 1 /* in C++ only: not every type can be made a pointer to here */
#    define MEMBER_OF_PROVIDER(member) ((DAT_PROVIDER *)0)->member
#endif
#define WORDS_OF(...) #__VA_ARGS__
#define WORDS(...) WORDS_OF(__VA_ARGS__)

#define SIZE(type, size) IS(sizeof(type) == (size), #type " has " #size " bytes");
#define MEMBER(type, member, offset, size)                                                         \
    IS(offsetof(type, member) == (offset), #type "." #member " is at " #offset);                   \
    IS(SIZE_OF(type, member) == (size), #type "." #member " has " #size " bytes");
#include "layout.inc"

#define NUMBER(name, value) IS((name) == (value), #name " is " #value);
#define MASK(name, value)                                                                          \
    NUMBER(name, value)                                                                            \
    IS(sizeof(name) == sizeof(DAT_UINT64), #name " has 64 bits");
#define TEXT(name, text) IS(IS_TEXT(name, text), #name " is " text);
#define SYMBOL(name, text) IS(IS_TEXT(WORDS(name), text), #name " is " text);
#define POINTER(name, value) /* no constant expression: see dat2_headers_test */
#ifdef __cplusplus
#    define ENUMERATOR(name, type) IS(IS_TYPE(name, type), #    name " is a " #    type);
#else
#    define ENUMERATOR(name, type) /* an int in C */
#endif
#define CHOSEN(name, ofed, solaris) CHOSEN_##name(ofed, solaris)
/* What is compared is a type: OFED's value has bits of the class, too. */
#define CHOSEN_DAT_NOT_IMPLEMENTED(ofed, solaris)                                                  \
    IS(DAT_GET_TYPE(UINT32_C(ofed)) == DAT_NOT_IMPLEMENTED, "what OFED's provider returns");       \
    IS(DAT_GET_TYPE(DAT_MAKE_ERROR(DAT_NOT_IMPLEMENTED, 0)) == DAT_NOT_IMPLEMENTED, "an error");
/* OFED's values where it has the name, and another for what is Solaris'. */
#define CHOSEN_DAT_PZ_SHAREABLE(ofed, solaris) IS(DAT_PZ_SHAREABLE == (ofed), "OFED's value");
#define CHOSEN_DAT_PZ_SAME(ofed, solaris)                                                          \
    IS(DAT_PZ_SAME != DAT_PZ_UNIQUE && DAT_PZ_SAME != DAT_PZ_SHAREABLE, "all three can be told");
#include "constants.inc"

#define TYPE(name, ...) IS(IS_SAME(name, __VA_ARGS__), #name " is " #__VA_ARGS__);
#include "types.inc"

#define FUNCTION(name, ...)                                                                        \
    IS(IS_TYPE(&name, DAT_RETURN (*)(__VA_ARGS__)), #name " takes " #__VA_ARGS__);
#define ENTRY(member, ...)                                                                         \
    IS(IS_TYPE(MEMBER_OF_PROVIDER(member), DAT_RETURN (*)(__VA_ARGS__)),                           \
       "DAT_PROVIDER." #member " takes " #__VA_ARGS__);
#include "functions.inc"
