# SPDX-License-Identifier: MIT
# This test checks required packages, and the lists of them.
TESTS += %D%/test_install.sh
EXTRA_DIST += %D%/test_install.sh

doc_tests = %D%/test_architecture.py %D%/test_manual.py %D%/test_popdist.py %D%/test_code.py %D%/test_examples.py %D%/test_guide.py %D%/test_kubernetes.py %D%/test_messages.py %D%/test_pictures.py %D%/test_pipelines.py %D%/test_recipes.py %D%/test_security.py %D%/test_spdx.py %D%/test_states.py %D%/test_sweeps.py %D%/test_tour.py
EXTRA_DIST += $(doc_tests) %D%/pages.py %D%/test_html.py
if PYTHON_FOUND
TESTS += $(doc_tests)
endif
