# Models of the small cores, checked by spin.
EXTRA_DIST += %D%/test_models.sh %D%/slot.pml
TESTS += %D%/test_models.sh
