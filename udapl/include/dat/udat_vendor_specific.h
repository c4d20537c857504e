/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * As dat_vendor_specific.h: there is nothing of any vendor in here.
 */
#ifndef COHERDMA_DAT1_UDAT_VENDOR_SPECIFIC_H
#define COHERDMA_DAT1_UDAT_VENDOR_SPECIFIC_H

#include <dat/dat_vendor_specific.h>

#endif
