/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * No vendor's device needs anything here; the header exists so that it can be included.
 */
#ifndef COHERDMA_DAT1_DAT_VENDOR_SPECIFIC_H
#define COHERDMA_DAT1_DAT_VENDOR_SPECIFIC_H

#endif
