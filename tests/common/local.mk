common_tests = %D%/test_philox
check_PROGRAMS += $(common_tests)
TESTS += $(common_tests)

%C%_test_philox_CFLAGS = $(test_cflags)
%C%_test_philox_LDADD = common/libcommon.la $(CRITERION_LIBS)
