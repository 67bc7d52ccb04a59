"""The command line of PyTorch's launcher, for tests."""

import socket
import sys
import tempfile


def command(processes, folder):
    """Start so many processes of the program that follows; logs go below `folder`."""
    with socket.socket() as s:  # --standalone always takes the same port, and two of them fail
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    # Standard output goes through files and is marked with the process: torch 1.13 knows nothing else with Python 3.11.
    return [sys.executable, "-m", "torch.distributed.run", "--master_addr", "127.0.0.1", "--master_port", str(port),
            "--nproc_per_node", str(processes), "--redirects", "1", "--tee", "1", "--log_dir", tempfile.mkdtemp(dir=folder)]
