# SPDX-License-Identifier: MIT
"""Finds TCP ports for programs that take one as an option."""

import random
import socket


def free_port(address="127.0.0.1"):
    """Return a port that is free now. It lies below the range from which the kernel takes the ports of connections and
    of port 0, so that among all programs only another call of this function could use it first."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
        end = int(f.read().split()[0])
    while True:
        with socket.socket() as s:
            try:
                s.bind((address, random.randrange(10000, end) if end > 12000 else 0))
            except OSError:
                continue
            return s.getsockname()[1]
