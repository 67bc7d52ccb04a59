#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""wire.py FILE - write everything that passes the network interfaces of this host to FILE, until SIGTERM. Needs root.

FILE then has everything that an eavesdropper between the hosts could read."""

import signal
import socket
import sys

signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
ALL = 3  # ETH_P_ALL
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                   socket.htons(ALL)) as s, open(sys.argv[1], "wb", buffering=0) as f:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
    print("ready", flush=True)
    while True:
        f.write(s.recv(1 << 18))
