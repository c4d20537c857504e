// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

const assert = require('node:assert')
const fs = require('node:fs')
const test = require('node:test')

test('the device is active', () => {
  const state = fs.readFileSync('/sys/class/infiniband/rxe0/ports/1/state', 'utf8')
  assert.equal(state, '4: ACTIVE\n')
})
