common_tests = \
	%D%/test_frame \
	%D%/test_hostlist \
	%D%/test_order \
	%D%/test_philox \
	%D%/test_pipeline \
	%D%/test_ring \
	%D%/test_wire
check_PROGRAMS += $(common_tests)
TESTS += $(common_tests)

%C%_test_frame_CFLAGS = $(test_cflags)
%C%_test_frame_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_hostlist_CFLAGS = $(test_cflags)
%C%_test_hostlist_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_order_CFLAGS = $(test_cflags)
%C%_test_order_LDADD = common/libcommon.la $(CRITERION_LIBS) -lm
%C%_test_philox_CFLAGS = $(test_cflags)
%C%_test_philox_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_pipeline_CFLAGS = $(test_cflags)
%C%_test_pipeline_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_ring_CFLAGS = $(test_cflags)
%C%_test_ring_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_wire_CFLAGS = $(test_cflags)
%C%_test_wire_LDADD = common/libcommon.la $(CRITERION_LIBS)
