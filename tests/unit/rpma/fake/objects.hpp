// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The objects that the fake libraries have created, and which calls of them fail.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace fake {

/// An object lives. uses: objects that must outlive it; null pointers are ignored.
void add_object(const void *object, const char *kind, std::initializer_list<const void *> uses);
/// The object uses another one in place of old_use.
void replace_use(const void *object, const void *old_use, const void *new_use);
/// A violation if it does not live, is of another kind, is still used, or has events that have not
/// been acknowledged.
void remove_object(const void *object, const char *kind);
/// A violation if it does not live.
void check_object(const void *object, const char *kind);
bool is_live(const void *object);
/// Events of the object that are not acknowledged: a destroying call would wait for them.
void add_events(const void *object, int difference);

void add_violation(const std::string &text);

/// Counts the call, and records its name. 0, or the errno value that it fails with.
int call(const char *name);

// -- of tests

std::size_t count_objects();
/// The violations so far, and all live objects if there should be none; then forgets them.
std::string take_violations();

/// The nth call that can fail from now on fails with the error, counted from 1; 0: none.
void fail_nth(unsigned nth, int error);
/// Each call of this name fails, until fail_none().
void fail_calls(const char *name, int error);
void fail_none();
/// The name of the call that failed last; "" if none since fail_nth() or fail_calls().
std::string failed_call();
/// The names of the calls since the last take_calls().
std::vector<std::string> take_calls();

/// The nth allocation of the library from now on fails; 0: none.
void fail_allocation(unsigned nth);
/// Whether the allocation of fail_allocation() has failed.
bool has_failed_allocation();
/// Allocations of the library that it has not freed.
long count_allocations();

} // namespace fake
