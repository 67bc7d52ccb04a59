# SPDX-License-Identifier: MIT
python_tests = %D%/test_advice.py %D%/test_classes.py %D%/test_collectives.py %D%/test_detection.py %D%/test_device.py \
	%D%/test_fields.py %D%/test_identity.py %D%/test_instances.py %D%/test_interrupted.py %D%/test_keypoints.py \
	%D%/test_launchers.py \
	%D%/test_mix.py %D%/test_mixed_fields.py %D%/test_mosaic.py %D%/test_normalise.py \
	%D%/test_order.py %D%/test_pyplenum.py %D%/test_reshape.py %D%/test_sampling.py \
	%D%/test_checkpoint.py %D%/test_shared_fields.py %D%/test_start.py \
	%D%/test_views.py %D%/test_wheel.py %D%/test_words.py %D%/test_world.py
EXTRA_DIST += $(python_tests) %D%/amending.py %D%/made.py %D%/nested.py %D%/random_calls.py %D%/ranks.py %D%/tap.py \
	%D%/ports.py %D%/torchrun.py %D%/walls.py %D%/world.py
if PYTHON_FOUND
TESTS += $(python_tests)
endif
