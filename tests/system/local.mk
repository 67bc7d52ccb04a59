# tests/system/: what needs root, several hosts or minutes; run by make check-system.
system_tests += %D%/test_hosts.sh %D%/test_systemd.sh %D%/test_page.py
EXTRA_DIST += %D%/test_hosts.sh %D%/test_systemd.sh %D%/vsystemd.sh %D%/test_page.py %D%/vhosts.sh
