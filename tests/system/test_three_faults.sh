#!/bin/bash
# SPDX-License-Identifier: MIT
# test_three_faults.sh - tests the most likely faults of a job on several hosts; make check-system tests all faults.
FAULTS="killed orted dropped" exec bash "$top_srcdir/tests/system/test_faults.sh"
