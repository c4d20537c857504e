// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The groups of cases.

#pragma once

#include "runner.hpp"

namespace differential {

void run_posts(const environment &env, runner &runner);
void run_extended_posts(const environment &env, runner &runner);
void run_lists(const environment &env, runner &runner);
void run_recvs(const environment &env, runner &runner);
void run_accesses(const environment &env, runner &runner);
void run_events(const environment &env, runner &runner);
void run_domains(const environment &env, runner &runner);
void run_processes(const environment &env, runner &runner);
void run_threads(const environment &env, runner &runner);
void run_objects(const environment &env, runner &runner);
void run_modifications(const environment &env, runner &runner);
void run_random(const environment &env, runner &runner);

} // namespace differential
