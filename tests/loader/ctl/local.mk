# SPDX-License-Identifier: MIT
TESTS += %D%/test_bottleneck.sh
EXTRA_DIST += %D%/test_bottleneck.sh
EXTRA_DIST += %D%/test_detection.py %D%/test_fields.py %D%/test_plan_jobs.py %D%/test_preview_fields.py %D%/test_preview_html.py
if PYTHON_FOUND
TESTS += %D%/test_detection.py %D%/test_fields.py %D%/test_plan_jobs.py %D%/test_preview_fields.py %D%/test_preview_html.py
endif
