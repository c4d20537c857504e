// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

package devices

import (
	"os"
	"testing"
)

func TestDeviceOpens(t *testing.T) {
	file, err := os.OpenFile("/dev/infiniband/uverbs0", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
}
